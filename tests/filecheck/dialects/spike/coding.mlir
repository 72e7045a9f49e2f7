// RUN: triton-opt %s | triton-opt | filecheck %s
// RUN: triton-opt %s --print-op-generic | triton-opt | filecheck %s
// Every op of this family parses, prints and parses again, in both formats.

func.func @f0(%x: tensor<?x4xf32>) {
  %s = spike.encode %x {scheme = "rate", timesteps = 8 : i64, seed = 7 : i64} :
      (tensor<?x4xf32>) -> !spike.train<8x?x4>
  func.return
}
// CHECK: %s = spike.encode %x {scheme = "rate", timesteps = 8 : i64, seed = 7 : i64} : (tensor<?x4xf32>) -> !spike.train<8x?x4>

func.func @f1(%x: tensor<?x4xf32>) {
  %s = spike.encode %x {scheme = "regular", timesteps = 8 : i64, start = 16 : i64} :
      (tensor<?x4xf32>) -> !spike.train<8x?x4>
  func.return
}
// CHECK: %s = spike.encode %x {scheme = "regular", timesteps = 8 : i64, start = 16 : i64} : (tensor<?x4xf32>) -> !spike.train<8x?x4>

func.func @f2(%x: tensor<?x4xf32>) {
  %s = spike.encode %x {scheme = "latency", timesteps = 8 : i64, period = 4 : i64, threshold =
      1.0e-01 : f64} : (tensor<?x4xf32>) -> !spike.train<8x?x4>
  func.return
}
// CHECK: %s = spike.encode %x {scheme = "latency", timesteps = 8 : i64, period = 4 : i64, threshold = 1.000000e-01 : f64} : (tensor<?x4xf32>) -> !spike.train<8x?x4>

func.func @f3(%x: tensor<?x4xf32>) {
  %s = spike.encode %x {scheme = "phase", timesteps = 16 : i64, period = 8 : i64} :
      (tensor<?x4xf32>) -> !spike.train<16x?x4>
  func.return
}
// CHECK: %s = spike.encode %x {scheme = "phase", timesteps = 16 : i64, period = 8 : i64} : (tensor<?x4xf32>) -> !spike.train<16x?x4>

func.func @f4(%x: tensor<?x4xf32>) {
  %s = spike.encode %x {scheme = "direct", timesteps = 8 : i64} : (tensor<?x4xf32>) ->
      tensor<8x?x4xf32>
  func.return
}
// CHECK: %s = spike.encode %x {scheme = "direct", timesteps = 8 : i64} : (tensor<?x4xf32>) -> tensor<8x?x4xf32>

func.func @f5(%x: tensor<?x4xi1>) {
  %s = spike.encode %x {scheme = "direct", timesteps = 8 : i64} : (tensor<?x4xi1>) ->
      !spike.train<8x?x4>
  func.return
}
// CHECK: %s = spike.encode %x {scheme = "direct", timesteps = 8 : i64} : (tensor<?x4xi1>) -> !spike.train<8x?x4>

func.func @f6(%x: tensor<8x?x4xf32>) {
  %s = spike.encode %x {scheme = "delta", threshold = 0.5 : f64} : (tensor<8x?x4xf32>) ->
      !spike.train<8x?x4>
  func.return
}
// CHECK: %s = spike.encode %x {scheme = "delta", threshold = 5.000000e-01 : f64} : (tensor<8x?x4xf32>) -> !spike.train<8x?x4>

func.func @f7(%x: tensor<8x?x4xf32>, %p: tensor<?x4xf32>) {
  %s = spike.encode %x, %p {scheme = "delta", threshold = 0.5 : f64} : (tensor<8x?x4xf32>,
      tensor<?x4xf32>) -> !spike.train<8x?x4>
  func.return
}
// CHECK: %s = spike.encode %x, %p {scheme = "delta", threshold = 5.000000e-01 : f64} : (tensor<8x?x4xf32>, tensor<?x4xf32>) -> !spike.train<8x?x4>

func.func @f8(%s: !spike.train<8x?x4>) {
  %y = spike.decode %s {scheme = "rate"} : (!spike.train<8x?x4>) -> tensor<?x4xf32>
  func.return
}
// CHECK: %y = spike.decode %s {scheme = "rate"} : (!spike.train<8x?x4>) -> tensor<?x4xf32>

func.func @f9(%s: !spike.train<8x?x4>) {
  %y = spike.decode %s {scheme = "first_spike"} : (!spike.train<8x?x4>) -> tensor<?x4xf32>
  func.return
}
// CHECK: %y = spike.decode %s {scheme = "first_spike"} : (!spike.train<8x?x4>) -> tensor<?x4xf32>

func.func @f10(%x: tensor<8x?x4xf32>) {
  %y = spike.decode %x {scheme = "membrane", readout = "max"} : (tensor<8x?x4xf32>) ->
      tensor<?x4xf32>
  func.return
}
// CHECK: %y = spike.decode %x {scheme = "membrane", readout = "max"} : (tensor<8x?x4xf32>) -> tensor<?x4xf32>

func.func @f11(%s: !spike.train<8x?x4>) {
  %y = spike.to_tensor %s : (!spike.train<8x?x4>) -> tensor<8x?x4xbf16>
  func.return
}
// CHECK: %y = spike.to_tensor %s : (!spike.train<8x?x4>) -> tensor<8x?x4xbf16>

func.func @f12(%x: tensor<8x?x4xf32>) {
  %s = spike.from_tensor %x : (tensor<8x?x4xf32>) -> !spike.train<8x?x4>
  func.return
}
// CHECK: %s = spike.from_tensor %x : (tensor<8x?x4xf32>) -> !spike.train<8x?x4>

func.func @resumed(%x: tensor<?x4xf32>, %n: tensor<i64>) {
  %s = spike.encode %x elapsed(%n : tensor<i64>) {scheme = "regular", timesteps = 8 : i64} :
      (tensor<?x4xf32>) -> !spike.train<8x?x4>
  func.return
}
// CHECK-LABEL: func.func @resumed
// CHECK: %s = spike.encode %x elapsed(%n : tensor<i64>) {scheme = "regular", timesteps = 8 : i64} : (tensor<?x4xf32>) -> !spike.train<8x?x4>
