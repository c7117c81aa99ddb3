// Merges a chunked proto with TensorFlow's own merger and writes the result in deterministic form. The merger is in the
// libraries of TensorFlow's wheel, but its header is not, so it is declared here.
//
// merger TYPE PREFIX OUT
#include <fstream>
#include <iostream>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/message.h"
#include "tensorflow/core/protobuf/saved_model.pb.h"

namespace tensorflow::tools::proto_splitter {
class Merger {
 public:
  static absl::Status Read(std::string prefix, google::protobuf::Message* message);
};
}  // namespace tensorflow::tools::proto_splitter

int main(int argc, char** argv) {
  using google::protobuf::DescriptorPool;
  using google::protobuf::MessageFactory;
  if (argc != 4) return 2;
  tensorflow::SavedModel linked;  // brings the schemas in
  const auto* type = DescriptorPool::generated_pool()->FindMessageTypeByName(argv[1]);
  if (type == nullptr) return 2;
  std::unique_ptr<google::protobuf::Message> message(MessageFactory::generated_factory()->GetPrototype(type)->New());
  const absl::Status status = tensorflow::tools::proto_splitter::Merger::Read(argv[2], message.get());
  if (!status.ok()) {
    std::cerr << status.ToString() << std::endl;
    return 1;
  }
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream output(&bytes);
    google::protobuf::io::CodedOutputStream coded(&output);
    coded.SetSerializationDeterministic(true);
    message->SerializeToCodedStream(&coded);
  }
  std::ofstream(argv[3], std::ios::binary) << bytes;
  return 0;
}
