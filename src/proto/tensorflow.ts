/** Schemas and types of the TensorFlow messages that cairn knows, as protobuf-es has them. */
export * from "./gen/tensorflow/core/framework/attr_value_pb.js";
export * from "./gen/tensorflow/core/framework/function_pb.js";
export * from "./gen/tensorflow/core/framework/graph_debug_info_pb.js";
export * from "./gen/tensorflow/core/framework/graph_pb.js";
export * from "./gen/tensorflow/core/framework/node_def_pb.js";
export * from "./gen/tensorflow/core/framework/op_def_pb.js";
export * from "./gen/tensorflow/core/framework/tensor_pb.js";
export * from "./gen/tensorflow/core/framework/tensor_shape_pb.js";
export * from "./gen/tensorflow/core/framework/types_pb.js";
export * from "./gen/tensorflow/core/framework/versions_pb.js";
export * from "./gen/tensorflow/core/protobuf/fingerprint_pb.js";
export * from "./gen/tensorflow/core/protobuf/meta_graph_pb.js";
export * from "./gen/tensorflow/core/protobuf/saved_model_pb.js";
export * from "./gen/tensorflow/core/protobuf/saved_object_graph_pb.js";
export * from "./gen/tensorflow/core/protobuf/struct_pb.js";
