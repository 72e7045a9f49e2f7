// RUN: triton-opt %s -p fuse-spike | filecheck %s
// RUN: triton-opt %s -p 'fuse-spike{layers=false}' | filecheck %s --check-prefix=PLAIN
// RUN: triton-opt %s -p 'fuse-spike{exact=true}' | filecheck %s --check-prefix=EXACT
// Batch normalisation goes into the synapse, then the synapse and its neurons become a layer.

func.func @forward(%x: !spike.train<?x?x8>) -> !spike.train<?x?x4> {
  %w = tensor.parameter "fc.weight" : tensor<8x4xf32>
  %scale = tensor.parameter "bn.scale" : tensor<4xf32>
  %bias = tensor.parameter "bn.bias" : tensor<4xf32>
  %mean = tensor.parameter "bn.mean" : tensor<4xf32>
  %var = tensor.parameter "bn.var" : tensor<4xf32>
  %i = spike.linear %x, %w : !spike.train<?x?x8>, tensor<8x4xf32> -> tensor<?x?x4xf32>
  %n = spike.batch_norm %i, %scale, %bias, %mean, %var
      : (tensor<?x?x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
      -> tensor<?x?x4xf32>
  %s = spike.lif %n {beta = 0.9 : f64} : (tensor<?x?x4xf32>) -> !spike.train<?x?x4>
  func.return %s : !spike.train<?x?x4>
}
// CHECK:      [[EPS:%[0-9]+]] = tensor.constant dense<1.000000e-05> : tensor<f32>
// CHECK-NEXT: [[SUM:%[0-9]+]] = tensor.add %var, [[EPS]]
// CHECK-NEXT: [[ROOT:%[0-9]+]] = tensor.sqrt [[SUM]]
// CHECK-NEXT: [[F:%[0-9]+]] = tensor.div %scale, [[ROOT]]
// CHECK-NEXT: [[MEAN:%[0-9]+]] = tensor.mul %mean, [[F]]
// CHECK-NEXT: [[B:%[0-9]+]] = tensor.sub %bias, [[MEAN]]
// CHECK-NEXT: [[W:%[0-9]+]] = tensor.mul %w, [[F]]
// CHECK-NEXT: %s = spike.layer %x, [[W]], [[B]] : (!spike.train<?x?x8>, tensor<8x4xf32>, tensor<4xf32>) -> !spike.train<?x?x4> {
// CHECK-NEXT: ^bb0([[X2:%[0-9]+]]: !spike.train<?x?x8>, [[W2:%[0-9]+]]: tensor<8x4xf32>, [[B2:%[0-9]+]]: tensor<4xf32>):
// CHECK-NEXT:   %i = spike.linear [[X2]], [[W2]] bias([[B2]] : tensor<4xf32>) : !spike.train<?x?x8>, tensor<8x4xf32> -> tensor<?x?x4xf32>
// CHECK-NEXT:   %s_1 = spike.lif %i {beta = 9.000000e-01 : f64} : (tensor<?x?x4xf32>) -> !spike.train<?x?x4>
// CHECK-NEXT:   spike.yield %s_1 : !spike.train<?x?x4>

// PLAIN-NOT: spike.layer
// PLAIN:     spike.linear %x, %{{[0-9]+}} bias(%{{[0-9]+}} : tensor<4xf32>)
// PLAIN-NEXT: spike.lif

// EXACT: spike.linear
// EXACT-NEXT: spike.batch_norm
// EXACT-NEXT: spike.lif
