// RUN: triton-opt %s | triton-opt | filecheck %s
// RUN: triton-opt %s --print-op-generic | triton-opt | filecheck %s
// Every op of this family parses, prints and parses again, in both formats.

func.func @f0(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  %z = tensor.add %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// CHECK: %z = tensor.add %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>

func.func @f1(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  %z = tensor.sub %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// CHECK: %z = tensor.sub %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>

func.func @f2(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  %z = tensor.mul %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// CHECK: %z = tensor.mul %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>

func.func @f3(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  %z = tensor.div %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// CHECK: %z = tensor.div %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>

func.func @f4(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  %z = tensor.mod %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// CHECK: %z = tensor.mod %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>

func.func @f5(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  %z = tensor.pow %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// CHECK: %z = tensor.pow %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>

func.func @f6(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  %z = tensor.maximum %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// CHECK: %z = tensor.maximum %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>

func.func @f7(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  %z = tensor.minimum %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// CHECK: %z = tensor.minimum %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>

func.func @f8(%x: tensor<?x1x8xi8>, %y: tensor<5x1xi8>) {
  %z = tensor.add %x, %y : (tensor<?x1x8xi8>, tensor<5x1xi8>) -> tensor<?x5x8xi8>
  func.return
}
// CHECK: %z = tensor.add %x, %y : (tensor<?x1x8xi8>, tensor<5x1xi8>) -> tensor<?x5x8xi8>

func.func @f9(%x: tensor<?xf64>, %y: tensor<4xf64>) {
  %z = tensor.add %x, %y : (tensor<?xf64>, tensor<4xf64>) -> tensor<4xf64>
  func.return
}
// CHECK: %z = tensor.add %x, %y : (tensor<?xf64>, tensor<4xf64>) -> tensor<4xf64>

func.func @f10(%x: tensor<?xf64>, %y: tensor<4xf64>) {
  %z = tensor.add %x, %y : (tensor<?xf64>, tensor<4xf64>) -> tensor<?xf64>
  func.return
}
// CHECK: %z = tensor.add %x, %y : (tensor<?xf64>, tensor<4xf64>) -> tensor<?xf64>

func.func @f11(%x: tensor<f16>, %y: tensor<f16>) {
  %z = tensor.mul %x, %y : (tensor<f16>, tensor<f16>) -> tensor<f16>
  func.return
}
// CHECK: %z = tensor.mul %x, %y : (tensor<f16>, tensor<f16>) -> tensor<f16>

func.func @f12(%x: tensor<4xi1>, %y: tensor<4xi1>) {
  %z = tensor.and %x, %y : (tensor<4xi1>, tensor<4xi1>) -> tensor<4xi1>
  func.return
}
// CHECK: %z = tensor.and %x, %y : (tensor<4xi1>, tensor<4xi1>) -> tensor<4xi1>

func.func @f13(%x: tensor<4xi1>, %y: tensor<4xi1>) {
  %z = tensor.or %x, %y : (tensor<4xi1>, tensor<4xi1>) -> tensor<4xi1>
  func.return
}
// CHECK: %z = tensor.or %x, %y : (tensor<4xi1>, tensor<4xi1>) -> tensor<4xi1>

func.func @f14(%x: tensor<4xf32>, %y: tensor<f32>) {
  %z = tensor.compare %x, %y {predicate = "eq"} : (tensor<4xf32>, tensor<f32>) -> tensor<4xi1>
  func.return
}
// CHECK: %z = tensor.compare %x, %y {predicate = "eq"} : (tensor<4xf32>, tensor<f32>) -> tensor<4xi1>

func.func @f15(%x: tensor<4xf32>, %y: tensor<f32>) {
  %z = tensor.compare %x, %y {predicate = "ne"} : (tensor<4xf32>, tensor<f32>) -> tensor<4xi1>
  func.return
}
// CHECK: %z = tensor.compare %x, %y {predicate = "ne"} : (tensor<4xf32>, tensor<f32>) -> tensor<4xi1>

func.func @f16(%x: tensor<4xf32>, %y: tensor<f32>) {
  %z = tensor.compare %x, %y {predicate = "lt"} : (tensor<4xf32>, tensor<f32>) -> tensor<4xi1>
  func.return
}
// CHECK: %z = tensor.compare %x, %y {predicate = "lt"} : (tensor<4xf32>, tensor<f32>) -> tensor<4xi1>

func.func @f17(%x: tensor<4xf32>, %y: tensor<f32>) {
  %z = tensor.compare %x, %y {predicate = "le"} : (tensor<4xf32>, tensor<f32>) -> tensor<4xi1>
  func.return
}
// CHECK: %z = tensor.compare %x, %y {predicate = "le"} : (tensor<4xf32>, tensor<f32>) -> tensor<4xi1>

func.func @f18(%x: tensor<4xf32>, %y: tensor<f32>) {
  %z = tensor.compare %x, %y {predicate = "gt"} : (tensor<4xf32>, tensor<f32>) -> tensor<4xi1>
  func.return
}
// CHECK: %z = tensor.compare %x, %y {predicate = "gt"} : (tensor<4xf32>, tensor<f32>) -> tensor<4xi1>

func.func @f19(%x: tensor<4xf32>, %y: tensor<f32>) {
  %z = tensor.compare %x, %y {predicate = "ge"} : (tensor<4xf32>, tensor<f32>) -> tensor<4xi1>
  func.return
}
// CHECK: %z = tensor.compare %x, %y {predicate = "ge"} : (tensor<4xf32>, tensor<f32>) -> tensor<4xi1>

func.func @f20(%c: tensor<4xi1>, %x: tensor<2x1xi32>, %y: tensor<i32>) {
  %z = tensor.where %c, %x, %y : (tensor<4xi1>, tensor<2x1xi32>, tensor<i32>) -> tensor<2x4xi32>
  func.return
}
// CHECK: %z = tensor.where %c, %x, %y : (tensor<4xi1>, tensor<2x1xi32>, tensor<i32>) -> tensor<2x4xi32>

func.func @f21(%x: tensor<?x4xf32>) {
  %y = tensor.convert %x : (tensor<?x4xf32>) -> tensor<?x4xf16>
  func.return
}
// CHECK: %y = tensor.convert %x : (tensor<?x4xf32>) -> tensor<?x4xf16>

func.func @f22(%x: tensor<?x4xf32>) {
  %y = tensor.convert %x : (tensor<?x4xf32>) -> tensor<?x4xbf16>
  func.return
}
// CHECK: %y = tensor.convert %x : (tensor<?x4xf32>) -> tensor<?x4xbf16>

func.func @f23(%x: tensor<?x4xf32>) {
  %y = tensor.convert %x : (tensor<?x4xf32>) -> tensor<?x4xf64>
  func.return
}
// CHECK: %y = tensor.convert %x : (tensor<?x4xf32>) -> tensor<?x4xf64>

func.func @f24(%x: tensor<?x4xf32>) {
  %y = tensor.convert %x : (tensor<?x4xf32>) -> tensor<?x4xi1>
  func.return
}
// CHECK: %y = tensor.convert %x : (tensor<?x4xf32>) -> tensor<?x4xi1>

func.func @f25(%x: tensor<?x4xf32>) {
  %y = tensor.convert %x : (tensor<?x4xf32>) -> tensor<?x4xi8>
  func.return
}
// CHECK: %y = tensor.convert %x : (tensor<?x4xf32>) -> tensor<?x4xi8>

func.func @f26(%x: tensor<?x4xf32>) {
  %y = tensor.convert %x : (tensor<?x4xf32>) -> tensor<?x4xi16>
  func.return
}
// CHECK: %y = tensor.convert %x : (tensor<?x4xf32>) -> tensor<?x4xi16>

func.func @f27(%x: tensor<?x4xf32>) {
  %y = tensor.convert %x : (tensor<?x4xf32>) -> tensor<?x4xi32>
  func.return
}
// CHECK: %y = tensor.convert %x : (tensor<?x4xf32>) -> tensor<?x4xi32>

func.func @f28(%x: tensor<?x4xf32>) {
  %y = tensor.convert %x : (tensor<?x4xf32>) -> tensor<?x4xi64>
  func.return
}
// CHECK: %y = tensor.convert %x : (tensor<?x4xf32>) -> tensor<?x4xi64>

func.func @f29(%x: tensor<4x!ternary.trit>) {
  %y = tensor.convert %x : (tensor<4x!ternary.trit>) -> tensor<4xf32>
  func.return
}
// CHECK: %y = tensor.convert %x : (tensor<4x!ternary.trit>) -> tensor<4xf32>

func.func @f29b(%x: tensor<4xf32>) {
  %y = tensor.convert %x : (tensor<4xf32>) -> tensor<4x!ternary.trit>
  func.return
}
// CHECK: %y = tensor.convert %x : (tensor<4xf32>) -> tensor<4x!ternary.trit>

func.func @f30(%x: tensor<4xf32>) {
  %y = tensor.neg %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// CHECK: %y = tensor.neg %x : (tensor<4xf32>) -> tensor<4xf32>

func.func @f31(%x: tensor<4xf32>) {
  %y = tensor.abs %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// CHECK: %y = tensor.abs %x : (tensor<4xf32>) -> tensor<4xf32>

func.func @f32(%x: tensor<4xf32>) {
  %y = tensor.sign %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// CHECK: %y = tensor.sign %x : (tensor<4xf32>) -> tensor<4xf32>

func.func @f33(%x: tensor<4xf32>) {
  %y = tensor.exp %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// CHECK: %y = tensor.exp %x : (tensor<4xf32>) -> tensor<4xf32>

func.func @f34(%x: tensor<4xf32>) {
  %y = tensor.log %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// CHECK: %y = tensor.log %x : (tensor<4xf32>) -> tensor<4xf32>

func.func @f35(%x: tensor<4xf32>) {
  %y = tensor.sqrt %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// CHECK: %y = tensor.sqrt %x : (tensor<4xf32>) -> tensor<4xf32>

func.func @f36(%x: tensor<4xf32>) {
  %y = tensor.rsqrt %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// CHECK: %y = tensor.rsqrt %x : (tensor<4xf32>) -> tensor<4xf32>

func.func @f37(%x: tensor<4xf32>) {
  %y = tensor.round %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// CHECK: %y = tensor.round %x : (tensor<4xf32>) -> tensor<4xf32>

func.func @f38(%x: tensor<4xf32>) {
  %y = tensor.floor %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// CHECK: %y = tensor.floor %x : (tensor<4xf32>) -> tensor<4xf32>

func.func @f39(%x: tensor<4xf32>) {
  %y = tensor.erf %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// CHECK: %y = tensor.erf %x : (tensor<4xf32>) -> tensor<4xf32>

func.func @f40(%x: tensor<?x4x!ternary.trit>) {
  %y = tensor.neg %x : (tensor<?x4x!ternary.trit>) -> tensor<?x4x!ternary.trit>
  func.return
}
// CHECK: %y = tensor.neg %x : (tensor<?x4x!ternary.trit>) -> tensor<?x4x!ternary.trit>

func.func @f41(%x: tensor<4xi64>) {
  %y = tensor.abs %x : (tensor<4xi64>) -> tensor<4xi64>
  func.return
}
// CHECK: %y = tensor.abs %x : (tensor<4xi64>) -> tensor<4xi64>

func.func @f42(%x: tensor<4xi1>) {
  %y = tensor.not %x : (tensor<4xi1>) -> tensor<4xi1>
  func.return
}
// CHECK: %y = tensor.not %x : (tensor<4xi1>) -> tensor<4xi1>

func.func @f43(%x: tensor<4xf32>) {
  %y = tensor.clamp %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// CHECK: %y = tensor.clamp %x : (tensor<4xf32>) -> tensor<4xf32>

func.func @f44(%x: tensor<4xf32>) {
  %y = tensor.clamp %x {min = 0.0 : f64} : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// CHECK: %y = tensor.clamp %x {min = 0.000000e+00 : f64} : (tensor<4xf32>) -> tensor<4xf32>

func.func @f45(%x: tensor<4xf32>) {
  %y = tensor.clamp %x {max = 6.0 : f64} : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// CHECK: %y = tensor.clamp %x {max = 6.000000e+00 : f64} : (tensor<4xf32>) -> tensor<4xf32>

func.func @f46(%x: tensor<4xi8>) {
  %y = tensor.clamp %x {min = -5.0 : f64, max = 6.0 : f64} : (tensor<4xi8>) -> tensor<4xi8>
  func.return
}
// CHECK: %y = tensor.clamp %x {min = -5.000000e+00 : f64, max = 6.000000e+00 : f64} : (tensor<4xi8>) -> tensor<4xi8>
