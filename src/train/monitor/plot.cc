#include "train/monitor/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace sullae::train {
namespace {

constexpr double kWidth = 560;
constexpr double kHeight = 300;
constexpr double kLeft = 64;
constexpr double kRight = 16;
constexpr double kTop = 34;
constexpr double kBottom = 62;
constexpr std::size_t kColours = 6;

// From where to where an axis goes, and the distance of its marks: 1, 2 or 5 times a power of ten.
struct Axis {
  double least = std::numeric_limits<double>::infinity();
  double most = -std::numeric_limits<double>::infinity();
  double step = 1;

  void include(double value) {
    if (!std::isfinite(value)) return;
    least = std::min(least, value);
    most = std::max(most, value);
  }
  void round(int marks, double least_step = 0) {
    // Closer than marks can be told apart.
    const bool is_one = most - least <= 1e-9 * std::max(std::abs(least), std::abs(most));
    if (is_one && least_step > 0) {
      least -= least_step;
      most += least_step;
    } else if (is_one) {
      const double room = least == 0 ? 1 : std::abs(least) * 0.1;
      least -= room;
      most += room;
    }
    const double rough = (most - least) / marks;
    const double power = std::pow(10, std::floor(std::log10(rough)));
    const double factor = rough / power;
    step = power * (factor <= 1 ? 1 : (factor <= 2 ? 2 : (factor <= 5 ? 5 : 10)));
    step = std::max(step, least_step);
    least = std::floor(least / step) * step;
    most = std::ceil(most / step) * step;
  }
  double share(double value) const { return (value - least) / (most - least); }
  std::vector<double> marks() const {
    std::vector<double> values;
    for (int i = 0; least + i * step <= most + step / 2; ++i) values.push_back(least + i * step);
    return values;
  }
};

std::string label(double value, double step) {
  if (std::abs(value) < step / 1000) value = 0;
  if (std::abs(value) >= 10000) return fmt::format("{:g}k", value / 1000);
  if (step < 1e-4) return fmt::format("{:.1e}", value);
  const int digits = std::max(0, static_cast<int>(-std::floor(std::log10(step) + 1e-9)));
  return fmt::format("{:.{}f}", value, std::min(digits, 8));
}

double x_at(const Axis& axis, double value) {
  return kLeft + axis.share(value) * (kWidth - kLeft - kRight);
}
double y_at(const Axis& axis, double value) {
  return kHeight - kBottom - axis.share(value) * (kHeight - kTop - kBottom);
}

std::string frame(const Axis& x, const Axis& y, const PlotOptions& options) {
  std::string svg = fmt::format("<text class=\"title\" x=\"{}\" y=\"18\">{}</text>\n", kLeft,
                                escape_html(options.title));
  for (const double value : y.marks()) {
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>"
        "<text class=\"mark\" text-anchor=\"end\" x=\"{3}\" y=\"{4:.1f}\">{5}</text>\n",
        kLeft, kWidth - kRight, y_at(y, value), kLeft - 6, y_at(y, value) + 4,
        label(value, y.step));
  }
  for (const double value : x.marks()) {
    svg +=
        fmt::format("<text class=\"mark\" text-anchor=\"middle\" x=\"{:.1f}\" y=\"{}\">{}</text>\n",
                    x_at(x, value), kHeight - kBottom + 16, label(value, x.step));
  }
  svg += fmt::format(
      "<text class=\"mark\" text-anchor=\"middle\" x=\"{}\" y=\"{}\">{}</text>\n"
      "<text class=\"mark\" text-anchor=\"middle\" transform=\"translate(14 {}) rotate(-90)\">{}"
      "</text>\n",
      (kLeft + kWidth - kRight) / 2, kHeight - kBottom + 32, escape_html(options.x_label),
      (kTop + kHeight - kBottom) / 2, escape_html(options.y_label));
  return svg;
}

std::string draw(const Curve& curve, std::size_t colour, const Axis& x, const Axis& y) {
  std::string points;
  std::string marks;
  for (std::size_t i = 0; i < curve.x.size(); ++i) {
    if (!std::isfinite(curve.y[i])) continue;
    const double px = x_at(x, curve.x[i]);
    const double py = y_at(y, curve.y[i]);
    points += fmt::format("{:.1f},{:.1f} ", px, py);
    if (curve.x.size() <= 40)
      marks += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\" fill=\"var(--c{})\"/>",
                           px, py, colour);
  }
  return fmt::format(
      "<polyline points=\"{}\" fill=\"none\" stroke=\"var(--c{})\" stroke-width=\"2\"{}/>{}\n",
      points, colour, curve.dashed ? " stroke-dasharray=\"6 4\"" : "", marks);
}

}  // namespace

std::string escape_html(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string plot(const std::vector<Curve>& curves, const PlotOptions& options) {
  Axis x;
  Axis y;
  for (const Curve& curve : curves) {
    for (const double value : curve.x) x.include(value);
    for (const double value : curve.y) y.include(value);
  }
  if (!std::isfinite(x.least) || !std::isfinite(y.least)) return {};
  if (options.from_zero) y.include(0);
  x.round(8, options.whole_x ? 1 : 0);
  y.round(5);
  std::string svg = fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n{}",
                                kWidth, kHeight, escape_html(options.title), frame(x, y, options));
  double legend = kLeft;
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const std::size_t colour = i % kColours;
    svg += draw(curves[i], colour, x, y);
    svg += fmt::format(
        "<line x1=\"{:.0f}\" x2=\"{:.0f}\" y1=\"{y}\" y2=\"{y}\" stroke=\"var(--c{})\" "
        "stroke-width=\"3\"{}/><text class=\"mark\" x=\"{:.0f}\" y=\"{}\">{}</text>\n",
        legend, legend + 18, colour, curves[i].dashed ? " stroke-dasharray=\"6 4\"" : "",
        legend + 24, kHeight - 8, escape_html(curves[i].name), fmt::arg("y", kHeight - 12));
    legend += 40 + 7.0 * static_cast<double>(curves[i].name.size());
  }
  return svg + "</svg>\n";
}

}  // namespace sullae::train
