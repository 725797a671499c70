// Stands in for what TFRecord files need where the build found no protobuf or no ISA-L.
#include "data/record/tfrecord_frame.h"
#include "sullae/data/example.h"
#include "sullae/data/tfrecord.h"
#include "sullae/error.h"

namespace sullae::data {
namespace {

[[noreturn]] void refuse() {
  throw InputError(
      "this build of Sullae has no TFRecord files: build it where protobuf and ISA-L are, with -D "
      "SULLAE_WITH_TFRECORD=ON");
}

}  // namespace

std::uint32_t masked_crc32c(std::string_view) { refuse(); }
bool begins_as_tfrecord(std::string_view) { return false; }
std::string serialize(const Example&) { refuse(); }
Example parse_example(std::string_view) { refuse(); }

}  // namespace sullae::data
