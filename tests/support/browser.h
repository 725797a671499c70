// A real browser, headless, for tests of the page.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

namespace sullae::testing {

/// Chromium, driven as W3C WebDriver says (https://www.w3.org/TR/webdriver2/).
class Browser {
 public:
  /// Throws std::runtime_error where there is none, or it does not start.
  Browser();
  ~Browser();

  void visit(const std::string& address);
  /// What the body of a function returns in the page.
  nlohmann::json run(const std::string& script);
  /// Clicks on what a person would see at `selector`: fails where there is nothing, or something is
  /// in front of it.
  void click(const std::string& selector);
  /// Types into an element that has the keyboard's focus after a click.
  void type(const std::string& selector, const std::string& text);
  /// Waits until `condition`, an expression, holds; false after a minute.
  bool wait_for(const std::string& condition);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sullae::testing
