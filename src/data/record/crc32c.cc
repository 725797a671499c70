#include <isa-l/crc.h>

#include "data/record/tfrecord_frame.h"

namespace sullae::data {

std::uint32_t masked_crc32c(std::string_view data) {
  // ISA-L leaves the inversions before and after to the caller, and takes lengths as int.
  unsigned crc = 0xffffffffU;
  while (!data.empty()) {
    const auto part = data.substr(0, std::size_t{1} << 30);
    crc = ::crc32_iscsi(reinterpret_cast<unsigned char*>(const_cast<char*>(part.data())),
                        static_cast<int>(part.size()), crc);
    data.remove_prefix(part.size());
  }
  crc = ~crc;
  // The rotation and the constant keep the CRC of data that holds CRCs from being weak.
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

bool begins_as_tfrecord(std::string_view start) {
  return start.size() >= kTFRecordHeader && tfrecord_length(start.data()).has_value();
}

}  // namespace sullae::data
