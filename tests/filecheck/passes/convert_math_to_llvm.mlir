// RUN: triton-opt %s -p convert-math-to-llvm --verify-roundtrip | filecheck %s
// RUN: triton-opt %s -p 'convert-math-to-llvm{features=avx2,fma}' | filecheck %s --check-prefix=AVX2
// RUN: triton-opt %s -p 'convert-math-to-llvm{library=libm}' | filecheck %s --check-prefix=LIBM

// CHECK-LABEL: @plain
func.func @plain(%x: f32, %v: vector<4xf64>, %n: i32) -> f32 {
  // CHECK: %a = llvm.call_intrinsic "llvm.fabs.f32"(%x) : (f32) -> f32
  %a = math.absf %x : f32
  // CHECK-NEXT: %s = llvm.call_intrinsic "llvm.sqrt.v4f64"(%v) : (vector<4xf64>) -> vector<4xf64>
  %s = math.sqrt %v : vector<4xf64>
  // CHECK-NEXT: [[root:%.*]] = llvm.call_intrinsic "llvm.sqrt.f32"(%a) : (f32) -> f32
  // CHECK-NEXT: %r = llvm.fdiv {{%.*}}, [[root]] : f32
  %r = math.rsqrt %a : f32
  // CHECK-NEXT: %c = llvm.call_intrinsic "llvm.ctlz.i32"(%n, {{%.*}}) : (i32, i1) -> i32
  %c = math.ctlz %n : i32
  func.return %r : f32
}

// No function is called, and no product fused with a sum.
// CHECK-LABEL: @formulas
// CHECK-NOT: llvm.call @
// CHECK-NOT: llvm.fma
// AVX2-LABEL: @formulas
// LIBM-LABEL: @formulas
func.func @formulas(%x: f32, %v: vector<2xf32>) -> f32 {
  // CHECK: [[shifted:%.*]] = llvm.fadd {{%.*}}, {{%.*}} : f32
  // LIBM: %e = llvm.call @expf(%x) : (f32) -> f32
  %e = math.exp %x : f32
  // LIBM: %t = llvm.insertelement
  %t = math.tanh %v : vector<2xf32>
  // AVX2: %f = llvm.call_intrinsic "llvm.floor.f32"(%e) : (f32) -> f32
  // LIBM: %f = llvm.call_intrinsic "llvm.floor.f32"(%e) : (f32) -> f32
  %f = math.floor %e : f32
  // AVX2-NEXT: %m = llvm.call_intrinsic "llvm.fma.f32"(%e, %f, %x) : (f32, f32, f32) -> f32
  %m = math.fma %e, %f, %x : f32
  // CHECK: func.return
  func.return %m : f32
}

// CHECK-LABEL: @remainder
func.func @remainder(%x: f64, %y: f64) -> f64 {
  // CHECK-NEXT: %r = llvm.call @triton_fmod(%x, %y) : (f64, f64) -> f64
  // LIBM: %r = func.call @fmod
  %r = func.call @fmod(%x, %y) : (f64, f64) -> f64
  func.return %r : f64
}
func.func private @fmod(f64, f64) -> f64

// CHECK: llvm.func internal @triton_fmod({{%.*}}: f64, {{%.*}}: f64) -> f64 {
// LIBM: llvm.func @expf(f32) -> f32
// LIBM-NEXT: llvm.func @tanhf(f32) -> f32
