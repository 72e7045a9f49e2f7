"""The C header of a compiled program. Not here: the functions that it declares (`export`)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...ir.identifiers import identifier
from ...runtime.native.abi.interface import Interface, TensorInterface

C_TYPES = {
    "bool": "uint8_t",
    "int8": "int8_t",
    "int16": "int16_t",
    "int32": "int32_t",
    "int64": "int64_t",
    "uint8": "uint8_t",
    "uint16": "uint16_t",
    "uint32": "uint32_t",
    "uint64": "uint64_t",
    "float16": "uint16_t",
    "bfloat16": "uint16_t",
    "float32": "float",
    "float64": "double",
}
"""The type of an element in C, by NumPy's name of it."""
NOTES = {
    "bool": ", 0 or 1 in a byte",
    "float16": ", the bits of an IEEE half",
    "bfloat16": ", the upper 16 bits of a float",
}

_KEYWORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl const
    concept consteval constexpr constinit const_cast continue co_await co_return co_yield decltype
    default delete do double dynamic_cast else enum explicit export extern false float for friend
    goto if inline int long main mutable namespace new noexcept not not_eq nullptr operator or or_eq
    private protected public register reinterpret_cast requires restrict return short signed sizeof
    static static_assert static_cast struct switch template this thread_local throw true try typedef
    typeid typename typeof union unsigned using virtual void volatile wchar_t while xor xor_eq
"""
_FUNCTIONS = ("memcmp", "memcpy", "memmove", "memset")
_MACROS = """
    BUFSIZ CHAR_BIT CHAR_MAX CHAR_MIN CLOCKS_PER_SEC EDOM EILSEQ EOF ERANGE EXIT_FAILURE
    EXIT_SUCCESS FILENAME_MAX FOPEN_MAX HUGE_VAL HUGE_VALF HUGE_VALL I INFINITY INT_MAX INT_MIN
    LONG_MAX LONG_MIN L_tmpnam MB_CUR_MAX MB_LEN_MAX NAN NDEBUG NULL RAND_MAX SCHAR_MAX SCHAR_MIN
    SEEK_CUR SEEK_END SEEK_SET SHRT_MAX SHRT_MIN SIGABRT SIGFPE SIGILL SIGINT SIGSEGV SIGTERM
    SIG_DFL SIG_ERR SIG_IGN SIZE_MAX TMP_MAX TRUE FALSE UCHAR_MAX UINT_MAX ULONG_MAX USHRT_MAX
    WCHAR_MAX WCHAR_MIN WEOF assert complex errno imaginary linux math_errhandling offsetof setjmp
    stderr stdin stdout unix va_arg va_copy va_end va_start
"""
RESERVED = frozenset((*_KEYWORDS.split(), *_MACROS.split(), *_FUNCTIONS, *C_TYPES.values()))
"""What cannot be the name of a function or of an argument in C and C++.

That is keywords, types, functions that compiled code calls, and macros of standard headers.
"""


def c_header(interface: Interface, prefix: str, machine: str, needs: Sequence[str] | None) -> str:
    """Declarations for C99 and C++.

    Args:
        interface: of the program.
        prefix: of the exported symbols.
        machine: what the code is made for, in words.
        needs: functions of the C library that the object calls; `None` where that is not known.
    """
    macro = macro_prefix(prefix)
    tensors = [
        *((f"INPUT_{i}", tensor) for i, tensor in enumerate(interface.inputs)),
        *((f"OUTPUT_{i}", tensor) for i, tensor in enumerate(interface.outputs)),
    ]
    lines = [
        f"/* {prefix}: {_count(len(interface.inputs), 'input')}, "
        f"{_count(len(interface.outputs), 'output')}. Made by Triton DSL; do not edit.",
        " *",
        f" * Code for {machine}.",
        *_calls(needs),
        " *",
        *_description(interface, prefix),
        " */",
        f"#ifndef {macro}_NATIVE_H",
        f"#define {macro}_NATIVE_H",
        "",
        "#include <stdint.h>",
        "",
        f"#define {macro}_INPUTS {len(interface.inputs)}",
        f"#define {macro}_OUTPUTS {len(interface.outputs)}",
        *(_elements_macro(macro, role, tensor, interface.free) for role, tensor in tensors),
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        "/* The above as JSON. */",
        f"extern const char {prefix}_interface[];",
        "",
        f"int64_t {prefix}_workspace_bytes({', '.join(_sizes(interface))});",
        "",
        *_prototype(interface, prefix),
        "",
        "#ifdef __cplusplus",
        "}",
        "#endif",
        "",
        f"#endif /* {macro}_NATIVE_H */",
    ]
    return "\n".join(lines) + "\n"


def in_c(name: str) -> str:
    """A name as that of a function."""
    name_in_c = identifier(name)
    return f"{name_in_c}_" if name_in_c in RESERVED else name_in_c


def macro_prefix(prefix: str) -> str:
    """What the macros of a header begin with: different for names that differ in case alone."""
    return prefix.swapcase() if prefix in (prefix.lower(), prefix.upper()) else prefix


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _calls(needs: Sequence[str] | None) -> list[str]:
    if needs is None:
        return [" * It may call memcpy, memset and the like of the C library."]
    if not needs:
        return [" * It calls no function of any library."]
    return [f" * It calls {', '.join(needs)} of the C library."]


def _description(interface: Interface, prefix: str) -> list[str]:
    names = ", ".join(interface.names)
    match len(interface.free):
        case 0:
            sizes = "batch: not looked at, all sizes are fixed; give 1"
        case 1:
            sizes = "batch: the number of rows"
        case _:
            sizes = f"{names}: the sizes that are free"
    return [
        " * Tensors are contiguous and row-major, of any alignment; outputs overlap nothing.",
        *(_tensor_line("in ", tensor, interface.free) for tensor in interface.inputs),
        *(_tensor_line("out", tensor, interface.free) for tensor in interface.outputs),
        f" * workspace: {prefix}_workspace_bytes({names}) bytes of any alignment, for one call at",
        " *   a time; what it holds before and after does not matter.",
        f" * {'; '.join([sizes, *interface.conditions])}.",
        *_promise(interface.kept),
    ]


def _promise(kept: int) -> list[str]:
    """What calls write to."""
    first = " * Calls from several threads at once are safe, each with a workspace of its own:"
    if not kept:
        return [first, " * nothing else is written to, and no memory is allocated."]
    return [
        first,
        f" * nothing else is written to but {kept} bytes of the object's own, which the first call",
        " * fills with weights, and no memory is allocated.",
    ]


def _sizes(interface: Interface) -> list[str]:
    return [f"int64_t {name}" for name in interface.names]


def _tensor_line(role: str, tensor: TensorInterface, free: Sequence[str]) -> str:
    note = NOTES.get(tensor.dtype, "")
    return f" * {role} {tensor.name}: {tensor.dtype} {tensor.shown(free)}{note}"


def _elements_macro(macro: str, role: str, tensor: TensorInterface, free: Sequence[str]) -> str:
    """The number of elements, a macro of the free sizes that it depends on."""
    fixed = prod(size.number for size in tensor.shape if size.number is not None)
    names = [free[n] for n in sorted({n for size in tensor.shape for n in size.depends})]
    if not names:
        return f"#define {macro}_{role}_ELEMENTS INT64_C({fixed})"
    values = [f"(int64_t)({name})" for name in free]
    factors = [f"INT64_C({fixed})"] + [
        f"({size.shown(values)})" for size in tensor.shape if size.number is None
    ]
    return f"#define {macro}_{role}_ELEMENTS({', '.join(names)}) ({' * '.join(factors)})"


def _prototype(interface: Interface, prefix: str) -> list[str]:
    arguments = [
        *(f"const {C_TYPES[t.dtype]} *{t.name}" for t in interface.inputs),
        *(f"{C_TYPES[t.dtype]} *{t.name}" for t in interface.outputs),
        "void *workspace",
        *_sizes(interface),
    ]
    one_line = f"void {prefix}({', '.join(arguments)});"
    if len(one_line) <= 100:
        return [one_line]
    return [f"void {prefix}(", *(f"    {a}," for a in arguments[:-1]), f"    {arguments[-1]});"]
