#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <random>

#include "sullae/data/digits.h"

namespace sullae::data {
namespace {

constexpr std::size_t kSide = 28;

struct Point {
  double x;
  double y;
};
struct Stroke {
  Point from;
  Point to;
};

// Glyphs as line strokes in the unit square, y downwards. Two ways to write some digits.
using Glyph = std::vector<Stroke>;

Glyph polyline(std::initializer_list<Point> points) {
  Glyph glyph;
  const Point* previous = nullptr;
  for (const Point& point : points) {
    if (previous != nullptr) glyph.push_back({*previous, point});
    previous = &point;
  }
  return glyph;
}

Glyph arc(Point centre, double rx, double ry, double from_turn, double to_turn) {
  Glyph glyph;
  constexpr int kPieces = 14;
  const auto at = [&](int i) {
    const double angle = 2 * std::numbers::pi * (from_turn + (to_turn - from_turn) * i / kPieces);
    return Point{centre.x + rx * std::cos(angle), centre.y + ry * std::sin(angle)};
  };
  for (int i = 0; i < kPieces; ++i) glyph.push_back({at(i), at(i + 1)});
  return glyph;
}

Glyph join(std::initializer_list<Glyph> parts) {
  Glyph whole;
  for (const Glyph& part : parts) whole.insert(whole.end(), part.begin(), part.end());
  return whole;
}

const std::vector<Glyph>& glyphs_of(int digit) {
  static const std::array<std::vector<Glyph>, 10> glyphs = {{
      {arc({0.5, 0.5}, 0.28, 0.42, 0, 1)},
      {polyline({{0.5, 0.08}, {0.5, 0.92}}), polyline({{0.34, 0.25}, {0.52, 0.08}, {0.52, 0.92}})},
      {join({arc({0.5, 0.3}, 0.26, 0.22, 0.5, 1.08),
             polyline({{0.73, 0.4}, {0.24, 0.92}, {0.78, 0.92}})})},
      {join({arc({0.48, 0.29}, 0.25, 0.21, 0.6, 1.25), arc({0.48, 0.7}, 0.28, 0.22, 0.75, 1.4)})},
      {polyline({{0.62, 0.92}, {0.62, 0.08}, {0.2, 0.64}, {0.82, 0.64}}),
       join({polyline({{0.28, 0.08}, {0.26, 0.5}, {0.74, 0.5}}),
             polyline({{0.72, 0.1}, {0.7, 0.92}})})},
      {join({polyline({{0.74, 0.08}, {0.32, 0.08}, {0.29, 0.45}}),
             arc({0.47, 0.66}, 0.27, 0.25, 0.65, 1.4)})},
      {join({arc({0.5, 0.67}, 0.25, 0.24, 0, 1), arc({0.68, 0.6}, 0.44, 0.54, 0.48, 0.72)})},
      {polyline({{0.22, 0.1}, {0.78, 0.1}, {0.42, 0.92}}),
       join({polyline({{0.22, 0.1}, {0.78, 0.1}, {0.42, 0.92}}),
             polyline({{0.38, 0.5}, {0.7, 0.5}})})},
      {join({arc({0.5, 0.29}, 0.22, 0.2, 0, 1), arc({0.5, 0.7}, 0.27, 0.22, 0, 1)})},
      {join({arc({0.5, 0.33}, 0.25, 0.24, 0, 1),
             polyline({{0.75, 0.33}, {0.7, 0.65}, {0.58, 0.92}})})},
  }};
  return glyphs[static_cast<std::size_t>(digit)];
}

double distance_to(const Stroke& stroke, Point p) {
  const double dx = stroke.to.x - stroke.from.x;
  const double dy = stroke.to.y - stroke.from.y;
  const double length = dx * dx + dy * dy;
  const double t =
      length == 0 ? 0
                  : std::clamp(((p.x - stroke.from.x) * dx + (p.y - stroke.from.y) * dy) / length,
                               0.0, 1.0);
  return std::hypot(p.x - stroke.from.x - t * dx, p.y - stroke.from.y - t * dy);
}

// Uniform and normal draws that are the same with every standard library.
class Hand {
 public:
  explicit Hand(std::uint64_t seed) : generator_(seed) {}
  double uniform(double from, double to) {
    return from + (to - from) * static_cast<double>(generator_() >> 11) * 0x1p-53;
  }
  double normal(double deviation) {
    const double radius = std::sqrt(-2 * std::log(uniform(1e-12, 1)));
    return deviation * radius * std::cos(2 * std::numbers::pi * uniform(0, 1));
  }

 private:
  std::mt19937_64 generator_;
};

// Strokes where they fall on the page: rotated, sheared, scaled and moved about the middle.
Glyph distort(const Glyph& glyph, Hand& hand) {
  const double angle = hand.normal(0.16);
  const double shear = hand.normal(0.18);
  const double width = hand.uniform(0.72, 1.08);
  const double height = hand.uniform(0.78, 1.08);
  const Point shift{hand.normal(0.045), hand.normal(0.045)};
  const auto move = [&](Point p) {
    const double x = (p.x - 0.5 + hand.normal(0.008)) * width + shear * (p.y - 0.5);
    const double y = (p.y - 0.5 + hand.normal(0.008)) * height;
    // The page keeps a margin, as MNIST's does.
    return Point{0.5 + 0.72 * (x * std::cos(angle) - y * std::sin(angle)) + shift.x,
                 0.5 + 0.72 * (x * std::sin(angle) + y * std::cos(angle)) + shift.y};
  };
  Glyph moved;
  Point end{-1, -1};  // of the stroke before
  for (const Stroke& stroke : glyph) {
    // A stroke that starts where the one before ended still does.
    const bool connected = std::hypot(stroke.from.x - end.x, stroke.from.y - end.y) < 1e-9;
    const Point from = connected ? moved.back().to : move(stroke.from);
    moved.push_back({from, move(stroke.to)});
    end = stroke.to;
  }
  return moved;
}

void draw(const Glyph& strokes, Hand& hand, std::uint8_t* pixels) {
  const double thickness = hand.uniform(0.028, 0.062);
  const double soft = 0.9 / kSide;
  const double noise = hand.uniform(0, 14);
  for (std::size_t row = 0; row < kSide; ++row) {
    for (std::size_t column = 0; column < kSide; ++column) {
      const Point centre{(static_cast<double>(column) + 0.5) / kSide,
                         (static_cast<double>(row) + 0.5) / kSide};
      double nearest = 1;
      for (const Stroke& stroke : strokes) nearest = std::min(nearest, distance_to(stroke, centre));
      const double ink =
          std::clamp((thickness - nearest) / soft + 0.5, 0.0, 1.0) * 255 + hand.normal(noise);
      pixels[row * kSide + column] =
          static_cast<std::uint8_t>(std::clamp(std::lround(ink), 0L, 255L));
    }
  }
}

}  // namespace

ImageSet draw_digits(std::size_t count, std::uint64_t seed) {
  Hand hand(seed);
  ImageSet set{.rows = kSide, .columns = kSide};
  set.pixels.resize(count * kSide * kSide);
  set.labels.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    const int digit = std::min(9, static_cast<int>(hand.uniform(0, 10)));
    const auto& forms = glyphs_of(digit);
    const auto& form =
        forms[std::min(forms.size() - 1, static_cast<std::size_t>(
                                             hand.uniform(0, static_cast<double>(forms.size()))))];
    draw(distort(form, hand), hand, set.pixels.data() + i * kSide * kSide);
    set.labels[i] = static_cast<std::uint8_t>(digit);
  }
  return set;
}

}  // namespace sullae::data
