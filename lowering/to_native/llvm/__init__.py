"""What the passes to the `llvm` dialect share: how types change, the walk, arithmetic on values.

- `types`: what a type is in the `llvm` dialect;
- `walk`: one rule for each op, the errors, the casts between old and new types;
- `blocks`: values that change their types where they are;
- `builder`: appends `llvm` ops, on scalars and on vectors of one dimension alike;
- `half`: f16 and bf16 without the functions that compilers call for them;
- `division`, `casts`: integer division; integers to floats and back;
- `rounding`, `exponential`, `logarithm`, `hyperbolic`, `error_function`, `power`, `remainder`: what
  `math` has and processors have not, with the source of each formula; `floating` and
  `double_double` are what they share;
- `c_library`: the C library's functions instead.

Everything here can be translated to LLVM IR by xDSL, which some forms follow from: its comparison
of floats and its choice are of scalars alone, and of the conversions between integers and floats it
has one. Not here: the passes themselves, `convert_arith_to_llvm` and so on beside this folder.
"""
