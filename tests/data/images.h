// JPEG files made for tests.
#pragma once

#include <jpeglib.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace sullae::testing {

struct JpegOptions {
  unsigned width = 64;
  unsigned height = 48;
  J_COLOR_SPACE colours = JCS_RGB;  ///< JCS_GRAYSCALE and JCS_CMYK too
  int quality = 95;
};

/// `value(x, y, channel)` gives the pixels.
inline std::string make_jpeg(const JpegOptions& options,
                             const std::function<int(unsigned, unsigned, int)>& value) {
  jpeg_compress_struct encoder{};
  jpeg_error_mgr errors{};
  encoder.err = ::jpeg_std_error(&errors);
  ::jpeg_create_compress(&encoder);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  ::jpeg_mem_dest(&encoder, &memory, &size);
  encoder.image_width = options.width;
  encoder.image_height = options.height;
  encoder.input_components = options.colours == JCS_RGB ? 3 : (options.colours == JCS_CMYK ? 4 : 1);
  encoder.in_color_space = options.colours;
  ::jpeg_set_defaults(&encoder);
  ::jpeg_set_quality(&encoder, options.quality, TRUE);
  ::jpeg_start_compress(&encoder, TRUE);
  std::vector<unsigned char> row(options.width * static_cast<unsigned>(encoder.input_components));
  for (unsigned y = 0; y < options.height; ++y) {
    auto place = row.begin();
    for (unsigned x = 0; x < options.width; ++x) {
      for (int c = 0; c < encoder.input_components; ++c)
        *place++ = static_cast<unsigned char>(value(x, y, c));
    }
    unsigned char* rows[] = {row.data()};
    ::jpeg_write_scanlines(&encoder, rows, 1);
  }
  ::jpeg_finish_compress(&encoder);
  std::string jpeg(reinterpret_cast<char*>(memory), size);
  ::jpeg_destroy_compress(&encoder);
  std::free(memory);
  return jpeg;
}

inline std::string one_colour_jpeg(unsigned width, unsigned height, int red, int green, int blue) {
  return make_jpeg({.width = width, .height = height}, [=](unsigned, unsigned, int channel) {
    return channel == 0 ? red : (channel == 1 ? green : blue);
  });
}

}  // namespace sullae::testing
