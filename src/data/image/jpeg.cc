#include "data/image/jpeg.h"

#include <fmt/format.h>

#include <csetjmp>
#include <cstdio>
#include <string>

// After <cstdio>, whose FILE it uses.
#include <jerror.h>
#include <jpeglib.h>

#include "sullae/data/dataset.h"

namespace sullae::data {

// The decoder is C: it reports errors by a function that must not return, and exceptions cannot
// pass through it. Whoever calls it sets `escape` first and, when control comes back there, throws.
struct JpegDecoder::State {
  jpeg_decompress_struct decoder{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf escape{};
  char message[JMSG_LENGTH_MAX] = {};

  static void fail(j_common_ptr decoder) {
    auto& state = *static_cast<State*>(decoder->client_data);
    (*decoder->err->format_message)(decoder, state.message);
    std::longjmp(state.escape, 1);
  }
  // Warnings: the file ends early, or too much is missing. Others (padding between segments, say)
  // are usual and harmless.
  static void warn(j_common_ptr decoder, int level) {
    const int code = decoder->err->msg_code;
    if (level < 0 &&
        (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE))
      fail(decoder);
  }
  // Each scan of a progressive file may be some bytes for a client, and a pass over the picture
  // here.
  static void count_scans(j_common_ptr decoder) {
    constexpr int kMostScans = 100;
    constexpr double kMostPixels = 300e6;  // of all scans together: 12 of the largest picture
    const auto& now = *reinterpret_cast<j_decompress_ptr>(decoder);
    const double pixels = double(now.input_scan_number) * now.image_width * now.image_height;
    const bool large = now.input_scan_number > 1 && pixels > kMostPixels;
    if (now.input_scan_number <= kMostScans && !large) return;
    auto& state = *static_cast<State*>(decoder->client_data);
    if (large) {
      std::snprintf(
          state.message, sizeof state.message,
          "it has %d and more scans of %u x %u pixels, expected at most %.0f million pixels in all",
          now.input_scan_number, now.image_width, now.image_height, kMostPixels / 1e6);
    } else {
      std::snprintf(state.message, sizeof state.message, "it has more than %d scans", kMostScans);
    }
    std::longjmp(state.escape, 1);
  }
  [[noreturn]] void raise() const {
    throw DamagedRecord(fmt::format("cannot be decoded: {}", message));
  }
  // Nothing else is in the frame that longjmp comes back to.
  void read_header(std::string_view jpeg);
};

void JpegDecoder::State::read_header(std::string_view jpeg) {
  decoder.err = ::jpeg_std_error(&errors);
  errors.error_exit = fail;
  errors.emit_message = warn;
  decoder.client_data = this;
  if (setjmp(escape) != 0) {
    ::jpeg_destroy_decompress(&decoder);
    raise();
  }
  ::jpeg_create_decompress(&decoder);
  progress.progress_monitor = count_scans;
  decoder.progress = &progress;
  ::jpeg_mem_src(&decoder, reinterpret_cast<const unsigned char*>(jpeg.data()),
                 static_cast<unsigned long>(jpeg.size()));
  ::jpeg_read_header(&decoder, TRUE);
}

namespace {

// A file of some kilobytes may say that it is a picture of gigabytes. Of a progressive one all
// coefficients are in memory at once, up to 6 bytes a pixel; of others a few rows.
constexpr std::size_t kMost = 200'000'000;
constexpr std::size_t kMostProgressive = 25'000'000;

std::string_view kind_of(std::string_view bytes) {
  if (bytes.empty()) return "empty";
  if (bytes.starts_with("\x89PNG")) return "a PNG file";
  if (bytes.starts_with("GIF8")) return "a GIF file";
  if (bytes.starts_with("RIFF")) return "a WebP file";
  if (bytes.starts_with("BM")) return "a BMP file";
  return "no JPEG file";
}

}  // namespace

JpegDecoder::JpegDecoder(std::string_view jpeg) : state_(std::make_unique<State>()) {
  if (!jpeg.starts_with("\xff\xd8"))
    throw DamagedRecord(fmt::format("is {}, expected a JPEG file", kind_of(jpeg)));
  state_->read_header(jpeg);
  auto& decoder = state_->decoder;
  std::string problem;
  if (decoder.data_precision != 8) {
    problem = fmt::format("has {} bits a sample, expected 8", decoder.data_precision);
  } else if (decoder.jpeg_color_space == JCS_CMYK || decoder.jpeg_color_space == JCS_YCCK) {
    problem = "has CMYK colours, expected grey, YCbCr or RGB";
  } else if (decoder.jpeg_color_space == JCS_UNKNOWN) {
    problem = fmt::format("has {} colour components, expected 1 or 3", decoder.num_components);
  } else if (const std::size_t pixels = size().rows * size().columns,
             most = ::jpeg_has_multiple_scans(&decoder) ? kMostProgressive : kMost;
             pixels > most) {
    problem =
        fmt::format("has {} x {} pixels, expected at most {} million{}", size().columns,
                    size().rows, most / 1'000'000, most == kMost ? "" : " where it is progressive");
  }
  if (!problem.empty()) {
    ::jpeg_destroy_decompress(&decoder);
    throw DamagedRecord("is a JPEG file that " + problem);
  }
  decoder.out_color_space = JCS_RGB;
}

JpegDecoder::~JpegDecoder() { ::jpeg_destroy_decompress(&state_->decoder); }

ImageSize JpegDecoder::size() const {
  return {state_->decoder.image_height, state_->decoder.image_width};
}

ImageSize JpegDecoder::scaled_size(unsigned eighths) const {
  const auto scaled = [&](std::size_t pixels) {
    return (pixels * eighths + 7) / 8;
  };
  return {scaled(size().rows), scaled(size().columns)};
}

PartialImage JpegDecoder::decode(unsigned eighths, const PixelRegion& region) {
  State& s = *state_;
  PartialImage result;
  // What longjmp leaves behind must not be in registers of this frame, and destructors of what is
  // made after setjmp do not run: everything is made before.
  auto& pixels = result.pixels.pixels;
  JDIMENSION column = static_cast<JDIMENSION>(region.column);
  JDIMENSION columns = static_cast<JDIMENSION>(region.columns);
  if (setjmp(s.escape) != 0) s.raise();
  s.decoder.scale_num = eighths;
  s.decoder.scale_denom = 8;
  ::jpeg_start_decompress(&s.decoder);
  // Widened to whole blocks. Two columns more, since at the edge of what is decoded colours are not
  // interpolated.
  if (columns < s.decoder.output_width) {
    const JDIMENSION left = column < 2 ? 0 : column - 2;
    columns = std::min(columns + column - left + 2, s.decoder.output_width - left);
    column = left;
    ::jpeg_crop_scanline(&s.decoder, &column, &columns);
  }
  if (region.row > 0) ::jpeg_skip_scanlines(&s.decoder, static_cast<JDIMENSION>(region.row));
  const std::size_t stride = std::size_t{3} * columns;
  pixels.resize(region.rows * stride);
  while (s.decoder.output_scanline < region.row + region.rows) {
    constexpr std::size_t kRowsAtOnce = 16;
    JSAMPROW rows[kRowsAtOnce];
    const std::size_t done = s.decoder.output_scanline - region.row;
    const std::size_t count = std::min(kRowsAtOnce, region.rows - done);
    for (std::size_t i = 0; i < count; ++i) rows[i] = pixels.data() + (done + i) * stride;
    ::jpeg_read_scanlines(&s.decoder, rows, static_cast<JDIMENSION>(count));
  }
  result.pixels.rows = region.rows;
  result.pixels.columns = columns;
  result.region = {region.row, column, region.rows, columns};
  return result;
}

ImageSize jpeg_size(std::string_view jpeg) { return JpegDecoder(jpeg).size(); }

Image decode_jpeg(std::string_view jpeg) {
  JpegDecoder decoder(jpeg);
  const ImageSize size = decoder.size();
  return decoder.decode(8, {0, 0, size.rows, size.columns}).pixels;
}

}  // namespace sullae::data
