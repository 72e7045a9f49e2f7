// RUN: triton-opt %s -p convert-spike-to-tensor | filecheck %s
// RUN: triton-opt %s -p 'convert-spike-to-tensor{products=event}' | filecheck %s --check-prefix=EVENT
// RUN: triton-opt %s -p 'convert-spike-to-tensor{neurons=loop resets=product},cse,dce' | filecheck %s --check-prefix=LOOP
// A synapse becomes one product over all steps, or stays for a kernel; neurons stay, or become loops.

// CHECK:      func.func @forward(%s: !spike.train<8x?x4>) -> tensor<?x2xf32> {
// CHECK-NEXT:   %w = ternary.constant [1, 0, -1, 1, 1, 1, 0, -1] : tensor<4x2x!ternary.trit>
// CHECK-NEXT:   %0 = spike.to_tensor %s : (!spike.train<8x?x4>) -> tensor<8x?x4xi1>
// CHECK-NEXT:   %1 = tensor.convert %0 : (tensor<8x?x4xi1>) -> tensor<8x?x4xi8>
// CHECK-NEXT:   %i = ternary.matmul %1, %w : tensor<8x?x4xi8>, tensor<4x2x!ternary.trit> -> tensor<8x?x2xi32>
// CHECK-NEXT:   %o = spike.integrate_fire %i
// CHECK-NEXT:   %2 = tensor.constant dense<8.000000e+00> : tensor<f32>
// CHECK-NEXT:   %3 = spike.to_tensor %o : (!spike.train<8x?x2>) -> tensor<8x?x2xi1>
// CHECK-NEXT:   %4 = tensor.convert %3 : (tensor<8x?x2xi1>) -> tensor<8x?x2xf32>
// CHECK-NEXT:   %5 = tensor.reduce_sum %4 {axes = array<i64: 0>} : (tensor<8x?x2xf32>) -> tensor<?x2xf32>
// CHECK-NEXT:   %y = tensor.div %5, %2
// EVENT:        %i = spike.linear %s, %w
// EVENT-NEXT:   %o = spike.integrate_fire %i
// EVENT-NEXT:   %0 = tensor.constant
// EVENT-NEXT:   %1 = spike.to_tensor %o : (!spike.train<8x?x2>) -> tensor<8x?x2xi1>
// LOOP:         %i = ternary.matmul
// LOOP:         [[ZERO:%[0-9]+]] = tensor.constant dense<0> : tensor<i32>
// LOOP-NEXT:    %o, {{.*}} = spike.scan %i states([[ZERO]] : tensor<i32>) : (tensor<8x?x2xi32>) -> (!spike.train<8x?x2>), (tensor<1x?x2xi32>) {
// LOOP-NEXT:    ^bb0([[X:%[0-9]+]]: tensor<1x?x2xi32>, %v: tensor<1x?x2xi32>):
// LOOP-NEXT:      [[V:%[0-9]+]] = tensor.add %v, [[X]]
// LOOP-NEXT:      %threshold = tensor.constant dense<1> : tensor<i32>
// LOOP-NEXT:      [[S:%[0-9]+]] = tensor.compare [[V]], %threshold {predicate = "ge"}
// LOOP-NEXT:      [[N:%[0-9]+]] = tensor.convert [[S]]
// LOOP-NEXT:      [[LEFT:%[0-9]+]] = tensor.sub [[V]], [[N]]
// LOOP-NEXT:      [[TRAIN:%[0-9]+]] = spike.from_tensor [[S]]
// LOOP-NEXT:      spike.yield [[LEFT]], [[TRAIN]]

func.func @forward(%s: !spike.train<8x?x4>) -> tensor<?x2xf32> {
  %w = ternary.constant [1, 0, -1, 1, 1, 1, 0, -1] : tensor<4x2x!ternary.trit>
  %i = spike.linear %s, %w : !spike.train<8x?x4>, tensor<4x2x!ternary.trit> -> tensor<8x?x2xi32>
  %o = spike.integrate_fire %i : (tensor<8x?x2xi32>) -> !spike.train<8x?x2>
  %y = spike.decode %o {scheme = "rate"} : (!spike.train<8x?x2>) -> tensor<?x2xf32>
  func.return %y : tensor<?x2xf32>
}
