"""A program with every kind of step that the target C has, on integers: bits are due."""

MIXED = """
func.func @forward(%x: tensor<1x70xi8>, %i: tensor<1x3x9x10xi8>, %u: tensor<1x23xui8>,
                   %t: tensor<1x50x!ternary.trit>, %s: !spike.train<6x1x37>)
    -> (tensor<1x9xi8>, tensor<1x130xi32>, tensor<1x10x5x10xi8>, tensor<1x21xi32>,
        !spike.train<6x1x40>, tensor<1x7xi32>, tensor<1x6x2x3xi8>) {
  %w = ternary.parameter "w" : tensor<70x130x!ternary.trit>
  %sums = ternary.matmul %x, %w : tensor<1x70xi8>, tensor<70x130x!ternary.trit>
          -> tensor<1x130xi32>
  %multiplier = tensor.constant dense<1103515245> : tensor<i32>
  %shift = tensor.constant dense<36> : tensor<i32>
  %zero = tensor.constant dense<-3> : tensor<i8>
  %q = tensor.requantize %sums, %multiplier, %shift, %zero {axis = 1 : i64, low = -128 : i64,
       high = 127 : i64} : (tensor<1x130xi32>, tensor<i32>, tensor<i32>, tensor<i8>)
       -> tensor<1x130xi8>
  %w2 = ternary.parameter "w2" : tensor<130x9x!ternary.trit>
  %thresholds = tensor.constant dense<[[-9, 0, 4]]> : tensor<1x3xi32>
  %counts = ternary.linear %q, %w2 thresholds(%thresholds : tensor<1x3xi32>)
            : tensor<1x130xi8>, tensor<130x9x!ternary.trit> -> tensor<1x9xi8>
  %k = ternary.parameter "k" : tensor<10x3x3x3x!ternary.trit>
  %image = ternary.conv %i, %k multiplier(%multiplier : tensor<i32>) shift(%shift : tensor<i32>)
           zero_point(%zero : tensor<i8>) {low = -128 : i64, high = 127 : i64,
           strides = array<i64: 2, 1>, padding = array<i64: 1, 1, 1, 1>,
           dilation = array<i64: 1, 1>}
           : tensor<1x3x9x10xi8>, tensor<10x3x3x3x!ternary.trit> -> tensor<1x10x5x10xi8>
  %w3 = ternary.parameter "w3" : tensor<50x21x!ternary.trit>
  %bare = ternary.matmul %t, %w3 : tensor<1x50x!ternary.trit>, tensor<50x21x!ternary.trit>
          -> tensor<1x21xi32>
  %w4 = ternary.parameter "w4" : tensor<37x40x!ternary.trit>
  %current = spike.linear %s, %w4 : !spike.train<6x1x37>, tensor<37x40x!ternary.trit>
             -> tensor<6x1x40xi32>
  %fired = spike.integrate_fire %current {threshold = 3.0 : f64, reset = "subtract"}
           : (tensor<6x1x40xi32>) -> !spike.train<6x1x40>
  %w5 = ternary.parameter "w5" : tensor<23x7x!ternary.trit>
  %unsigned = ternary.matmul %u, %w5 : tensor<1x23xui8>, tensor<23x7x!ternary.trit>
              -> tensor<1x7xi32>
  %pool = tensor.max_pool %i {kernel = array<i64: 3, 3>, strides = array<i64: 3, 3>,
          padding = array<i64: 0, 0, 0, 0>} : (tensor<1x3x9x10xi8>) -> tensor<1x3x3x3xi8>
  %k2 = ternary.parameter "k2" : tensor<6x3x2x1x!ternary.trit>
  %small = ternary.conv %pool, %k2 multiplier(%multiplier : tensor<i32>)
           shift(%shift : tensor<i32>)
           zero_point(%zero : tensor<i8>) {low = -128 : i64, high = 127 : i64,
           strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>,
           dilation = array<i64: 1, 1>}
           : tensor<1x3x3x3xi8>, tensor<6x3x2x1x!ternary.trit> -> tensor<1x6x2x3xi8>
  func.return %counts, %sums, %image, %bare, %fired, %unsigned, %small
    : tensor<1x9xi8>, tensor<1x130xi32>, tensor<1x10x5x10xi8>, tensor<1x21xi32>,
      !spike.train<6x1x40>, tensor<1x7xi32>, tensor<1x6x2x3xi8>
}
"""
