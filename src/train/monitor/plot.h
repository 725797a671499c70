// Line plots as SVG.
#pragma once

#include <string>
#include <vector>

namespace sullae::train {

struct Curve {
  std::string name;
  std::vector<double> x;
  std::vector<double> y;
  bool dashed = false;
};

struct PlotOptions {
  std::string title;
  std::string x_label;
  std::string y_label;
  bool from_zero = false;  ///< the y axis starts at 0
  bool whole_x = true;     ///< x counts something
};

/// An <svg> element; empty where no curve has a point. Colours follow the page's (CSS variables
/// --c0 … --c5).
std::string plot(const std::vector<Curve>& curves, const PlotOptions& options);

/// Text with what HTML gives a meaning to replaced.
std::string escape_html(const std::string& text);

}  // namespace sullae::train
