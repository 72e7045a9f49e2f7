// RUN: triton-opt %s --verify-semantics=2 -p 'fuse-linear,fold-constants,canonicalize,cse,dce' | filecheck %s
// RUN: triton-opt %s --verify-semantics -p ternarize 2>&1 | filecheck %s --check-prefix=APPROXIMATE
// RUN: not triton-opt %s --verify-semantics --approximate-tolerance=1e-6 -p 'ternarize' 2>&1 | filecheck %s --check-prefix=TOLERANCE

// The weights are nowhere: both sides get the same random ones.
func.func @forward(%x: tensor<?x8xf32>) -> tensor<?x4xf32> {
  %w = tensor.parameter "fc.weight" : tensor<8x4xf32>
  %b = tensor.parameter "fc.bias" : tensor<4xf32>
  %0 = tensor.matmul %x, %w : (tensor<?x8xf32>, tensor<8x4xf32>) -> tensor<?x4xf32>
  %1 = tensor.add %0, %b : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
  func.return %1 : tensor<?x4xf32>
}

// CHECK: tensor.linear %x, %w, %b
// APPROXIMATE: triton-opt: note: pass 'ternarize' is approximate: function 'forward' changes by
// APPROXIMATE: ternary.
// TOLERANCE: triton-opt: error: pass 'ternarize' changes the result: result 0 at
