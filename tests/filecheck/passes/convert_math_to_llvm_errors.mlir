// RUN: not triton-opt %s -p convert-math-to-llvm 2>&1 | filecheck %s
// RUN: not triton-opt %s -p 'convert-math-to-llvm{library=blas}' 2>&1 | filecheck %s --check-prefix=CHOICE

func.func @f(%x: f32, %y: f64, %n: i32) {
  %a = math.sin %x : f32
  %b = math.fma %y, %y, %y : f64
  %c = math.ipowi %n, %n : i32
  func.return
}

// CHECK: target 'llvm' cannot express 3 operation(s):
// CHECK-NEXT: math.sin at {{.*}}errors.mlir:5:3: has no formula here; library=libm calls the C library's
// CHECK-NEXT: math.fma at {{.*}}errors.mlir:6:3: needs an instruction: give the pass features=fma, or library=libm
// CHECK-NEXT: math.ipowi at {{.*}}errors.mlir:7:3: no rule converts it

// CHOICE: expects library=none or library=libm, got 'blas'
