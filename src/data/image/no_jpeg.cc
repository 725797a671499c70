// Stands in for the decoder where the build found no libjpeg.
#include "data/image/jpeg.h"
#include "sullae/error.h"

namespace sullae::data {

struct JpegDecoder::State {};

JpegDecoder::JpegDecoder(std::string_view) {
  throw InputError(
      "this build of Sullae reads no JPEG files: build it where libjpeg is, with -D "
      "SULLAE_WITH_JPEG=ON");
}
JpegDecoder::~JpegDecoder() = default;
ImageSize JpegDecoder::size() const { return {}; }
ImageSize JpegDecoder::scaled_size(unsigned) const { return {}; }
PartialImage JpegDecoder::decode(unsigned, const PixelRegion&) { return {}; }

ImageSize jpeg_size(std::string_view jpeg) { return JpegDecoder(jpeg).size(); }
Image decode_jpeg(std::string_view jpeg) {
  JpegDecoder decoder(jpeg);
  return {};
}

}  // namespace sullae::data
