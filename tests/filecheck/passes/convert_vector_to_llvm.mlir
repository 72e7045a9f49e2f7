// RUN: triton-opt %s -p convert-vector-to-llvm --verify-roundtrip | filecheck %s

// CHECK-LABEL: @lanes
func.func @lanes(%x: f32, %v: vector<4xf32>, %n: index) -> f32 {
  // CHECK: [[none:%.*]] = llvm.mlir.undef : vector<8xf32>
  // CHECK-NEXT: [[one:%.*]] = llvm.insertelement %x, [[none]][{{%.*}} : i32] : vector<8xf32>
  // CHECK-NEXT: %b = llvm.shufflevector [[one]], [[one]] [0, 0, 0, 0, 0, 0, 0, 0] : vector<8xf32>
  %b = vector.broadcast %x : f32 to vector<8xf32>
  // CHECK-NEXT: [[lane:%.*]] = llvm.shufflevector %v, %v [2] : vector<4xf32>
  // CHECK-NEXT: %e = llvm.bitcast [[lane]] : vector<1xf32> to f32
  %e = vector.extract %v[2] : f32 from vector<4xf32>
  // CHECK-NEXT: %i = llvm.insertelement %e, %v[{{%.*}} : i64] : vector<4xf32>
  %i = vector.insert %e, %v [0] : f32 into vector<4xf32>
  // CHECK-NEXT: %s = llvm.shufflevector %i, %v [3, 4] : vector<4xf32>
  %s = vector.shuffle %i, %v [3, 4] : vector<4xf32>, vector<4xf32>
  // CHECK-NEXT: %f = math.fma %s, %s, %s : vector<2xf32>
  %f = vector.fma %s, %s, %s : vector<2xf32>
  // CHECK-NEXT: %c = llvm.bitcast %f : vector<2xf32> to vector<8xi8>
  %c = vector.bitcast %f : vector<2xf32> to vector<8xi8>
  // CHECK-NEXT: [[n:%.*]] = builtin.unrealized_conversion_cast %n : index to i64
  // CHECK-NEXT: llvm.mlir.constant(dense<[0, 1, 2, 3]> : vector<4xi64>) : vector<4xi64>
  // CHECK: %m = llvm.icmp "slt" {{%.*}}, {{%.*}} : vector<4xi64>
  %m = vector.create_mask %n : vector<4xi1>
  func.return %e : f32
}

// CHECK-LABEL: @reductions
func.func @reductions(%v: vector<4xf32>, %i: vector<8xi16>, %a: i16) -> f32 {
  // CHECK: %s = llvm.call_intrinsic "llvm.vector.reduce.fadd.v4f32"({{%.*}}, %v) : (f32, vector<4xf32>) -> f32
  %s = vector.reduction <add>, %v : vector<4xf32> into f32
  // CHECK-NEXT: [[low:%.*]] = llvm.shufflevector %v, %v [0, 1] : vector<4xf32>
  // CHECK-NEXT: [[high:%.*]] = llvm.shufflevector %v, %v [2, 3] : vector<4xf32>
  // CHECK-NEXT: llvm.fadd [[low]], [[high]] : vector<2xf32>
  %t = vector.reduction <add>, %v fastmath<reassoc> : vector<4xf32> into f32
  // CHECK: [[most:%.*]] = llvm.call_intrinsic "llvm.vector.reduce.smax.v8i16"(%i) : (vector<8xi16>) -> i16
  // CHECK-NEXT: %m = llvm.call_intrinsic "llvm.smax.i16"([[most]], %a) : (i16, i16) -> i16
  %m = vector.reduction <maxsi>, %i, %a : vector<8xi16> into i16
  func.return %s : f32
}
