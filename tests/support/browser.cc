#include "support/browser.h"

#include <chrono>
#include <stdexcept>
#include <thread>

#include "support/http_client.h"
#include "support/program.h"
#include "support/temporary_directory.h"

namespace sullae::testing {

using nlohmann::json;

class Browser::Impl {
 public:
  Impl() : driver_({"chromedriver", "--port=0"}, {{"TMPDIR", directory_.path().string()}}) {
    const std::string mark = "successfully on port ";
    if (!driver_.wait_for_output(mark))
      throw std::runtime_error("chromedriver does not start: " + driver_.output());
    const auto at = driver_.output().find(mark) + mark.size();
    http_ = std::make_unique<HttpClient>(
        static_cast<std::uint16_t>(std::stoi(driver_.output().substr(at))));
    // As root, and where /dev/shm is small, Chromium needs these.
    const json options = {{"args",
                           {"--headless=new", "--no-sandbox", "--disable-dev-shm-usage",
                            "--disable-gpu", "--window-size=1200,1600"}}};
    const auto session =
        call("POST", "/session",
             {{"capabilities", {{"alwaysMatch", {{"goog:chromeOptions", options}}}}}});
    session_ = "/session/" + session.at("sessionId").get<std::string>();
  }
  ~Impl() {
    if (!session_.empty()) http_->ask("DELETE", session_, "");
  }

  json in_session(const std::string& command, const json& body) {
    return call("POST", session_ + command, body);
  }

  std::string find(const std::string& selector) {
    const auto element = in_session("/element", {{"using", "css selector"}, {"value", selector}});
    return "/element/" + element.begin().value().get<std::string>();
  }

 private:
  json call(const std::string& method, const std::string& path, const json& body) {
    const auto answer = http_->ask(method, path, body.dump());
    if (answer.status != 200) throw std::runtime_error(path + ": " + answer.body);
    return answer.json().at("value");
  }

  TemporaryDirectory directory_;  // Chromium leaves its folders behind
  Program driver_;
  std::unique_ptr<HttpClient> http_;
  std::string session_;
};

Browser::Browser() : impl_(std::make_unique<Impl>()) {}
Browser::~Browser() = default;

void Browser::visit(const std::string& address) { impl_->in_session("/url", {{"url", address}}); }

json Browser::run(const std::string& script) {
  return impl_->in_session("/execute/sync", {{"script", script}, {"args", json::array()}});
}

void Browser::click(const std::string& selector) {
  impl_->in_session(impl_->find(selector) + "/click", json::object());
}

void Browser::type(const std::string& selector, const std::string& text) {
  impl_->in_session(impl_->find(selector) + "/value", {{"text", text}});
}

bool Browser::wait_for(const std::string& condition) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (std::chrono::steady_clock::now() < limit) {
    if (run("return Boolean(" + condition + ")") == json(true)) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return false;
}

}  // namespace sullae::testing
