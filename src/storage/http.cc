#include "storage/http.h"

#include <curl/curl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <mutex>
#include <optional>
#include <thread>

#include "base/ascii.h"
#include "base/environment.h"
#include "base/interruption.h"
#include "base/log.h"

namespace sullae::storage {
namespace {

using Clock = std::chrono::steady_clock;

// Who sends nothing for so long is silent.
constexpr long kSilentSeconds = 30;
// Of a body that is kept: listings, and what is said of errors.
constexpr std::size_t kMostBody = std::size_t{64} << 20;

struct EasyDeleter {
  void operator()(CURL* easy) const { ::curl_easy_cleanup(easy); }
};
using Easy = std::unique_ptr<CURL, EasyDeleter>;

// A request under way, as libcurl's callbacks see it.
struct Exchange {
  const HttpRequest& request;
  CURL* easy;
  HttpResponse answer;
  std::uint64_t sent = 0;
  std::exception_ptr failure;
};

std::size_t take_body(char* data, std::size_t, std::size_t bytes, void* user) {
  auto& exchange = *static_cast<Exchange*>(user);
  long status = 0;
  ::curl_easy_getinfo(exchange.easy, CURLINFO_RESPONSE_CODE, &status);
  try {
    if (exchange.request.sink && status >= 200 && status < 300) {
      if (exchange.request.sink_status != 0 && status != exchange.request.sink_status)
        throw Error(fmt::format("{}: gives no parts of files", exchange.request.url));
      exchange.request.sink({data, bytes});
    } else if (exchange.answer.body.size() + bytes <= kMostBody) {
      exchange.answer.body.append(data, bytes);
    } else {
      throw Error(fmt::format("{}: the answer has more than {} MiB", exchange.request.url,
                              kMostBody >> 20));
    }
  } catch (const std::exception&) {
    // libcurl is C: what was thrown goes on behind it.
    exchange.failure = std::current_exception();
    return 0;
  }
  return bytes;
}

// About once a second, and whenever something comes.
int look_after(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  try {
    check_interruption();
    return 0;
  } catch (const std::exception&) {
    static_cast<Exchange*>(user)->failure = std::current_exception();
    return 1;
  }
}

std::size_t take_header(char* data, std::size_t, std::size_t bytes, void* user) {
  auto& answer = static_cast<Exchange*>(user)->answer;
  const std::string_view line(data, bytes);
  // Of each answer on the way to the last.
  if (line.starts_with("HTTP/")) answer.headers.clear();
  const auto colon = line.find(':');
  if (colon == std::string_view::npos) return bytes;
  answer.headers[to_lower(line.substr(0, colon))] = trimmed(line.substr(colon + 1));
  return bytes;
}

std::size_t give_upload(char* into, std::size_t, std::size_t most, void* user) {
  auto& exchange = *static_cast<Exchange*>(user);
  const std::uint64_t left = exchange.request.upload.bytes - exchange.sent;
  const ssize_t count = ::pread(exchange.request.upload.fd, into,
                                static_cast<std::size_t>(std::min<std::uint64_t>(most, left)),
                                static_cast<off_t>(exchange.request.upload.offset + exchange.sent));
  if (count < 0) return CURL_READFUNC_ABORT;
  exchange.sent += static_cast<std::uint64_t>(count);
  return static_cast<std::size_t>(count);
}

int seek_upload(void* user, curl_off_t offset, int origin) {
  if (origin != SEEK_SET) return CURL_SEEKFUNC_CANTSEEK;
  static_cast<Exchange*>(user)->sent = static_cast<std::uint64_t>(offset);
  return CURL_SEEKFUNC_OK;
}

// What will be the same the next time.
bool is_final(CURLcode code) {
  return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE ||
         code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL ||
         code == CURLE_TOO_MANY_REDIRECTS;
}

void wait_for(std::chrono::milliseconds pause) {
  const auto end = Clock::now() + pause;
  for (auto left = pause; left.count() > 0;
       left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now())) {
    check_interruption();
    std::this_thread::sleep_for(until_interruption(left));
  }
}

}  // namespace

class Http::Impl {
 public:
  HttpResponse send(const HttpRequest& request) {
    Easy easy = take();
    CURL* const curl = easy.get();
    ::curl_easy_reset(curl);
    Exchange exchange{.request = request, .easy = curl, .answer = {}, .failure = {}};
    char error[CURL_ERROR_SIZE] = "";
    curl_slist* headers = ::curl_slist_append(nullptr, "Expect:");
    for (const auto& header : request.headers)
      headers = ::curl_slist_append(headers, header.c_str());
    ::curl_easy_setopt(curl, CURLOPT_URL, request.url.c_str());
    ::curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    ::curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
    ::curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    ::curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    ::curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error);
    ::curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, request.connect_seconds);
    ::curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    ::curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, kSilentSeconds);
    ::curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    ::curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, &look_after);
    ::curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &exchange);
    ::curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &take_body);
    ::curl_easy_setopt(curl, CURLOPT_WRITEDATA, &exchange);
    ::curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, &take_header);
    ::curl_easy_setopt(curl, CURLOPT_HEADERDATA, &exchange);
    ::curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, request.follow ? 1L : 0L);
    ::curl_easy_setopt(curl, CURLOPT_MAXREDIRS, 5L);
    if (const auto bundle = process_environment()("AWS_CA_BUNDLE"))
      ::curl_easy_setopt(curl, CURLOPT_CAINFO, bundle->c_str());
    if (request.method == "HEAD") {
      ::curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
    } else if (request.method == "PUT" || request.upload.fd >= 0) {
      ::curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
      ::curl_easy_setopt(curl, CURLOPT_READFUNCTION, &give_upload);
      ::curl_easy_setopt(curl, CURLOPT_READDATA, &exchange);
      ::curl_easy_setopt(curl, CURLOPT_SEEKFUNCTION, &seek_upload);
      ::curl_easy_setopt(curl, CURLOPT_SEEKDATA, &exchange);
      ::curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE,
                         static_cast<curl_off_t>(request.upload.bytes));
      ::curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request.method.c_str());
    } else if (request.method != "GET") {
      ::curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request.method.c_str());
    }
    const CURLcode code = ::curl_easy_perform(curl);
    ::curl_slist_free_all(headers);
    ::curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &exchange.answer.status);
    if (exchange.failure) std::rethrow_exception(exchange.failure);
    if (code != CURLE_OK) {
      const std::string reason = error[0] != '\0' ? error : ::curl_easy_strerror(code);
      if (is_final(code)) throw Error(fmt::format("{}: {}", request.url, reason));
      throw ConnectionError(reason);
    }
    give_back(std::move(easy));
    return std::move(exchange.answer);
  }

 private:
  Easy take() {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        Easy easy = std::move(idle_.back());
        idle_.pop_back();
        return easy;
      }
    }
    static const CURLcode ready = ::curl_global_init(CURL_GLOBAL_DEFAULT);
    Easy easy(ready == CURLE_OK ? ::curl_easy_init() : nullptr);
    if (!easy) throw Error("libcurl cannot be started");
    return easy;
  }
  void give_back(Easy easy) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(easy));
  }

  std::mutex mutex_;  // guards:
  std::vector<Easy> idle_;
};

Http::Http() : impl_(std::make_unique<Impl>()) {}
Http::~Http() = default;
HttpResponse Http::send(const HttpRequest& request) { return impl_->send(request); }

std::chrono::milliseconds storage_timeout() {
  std::chrono::milliseconds timeout = std::chrono::seconds{120};
  read_seconds(process_environment(), "SULLAE_STORAGE_TIMEOUT", ZeroMeans::error, timeout);
  return timeout;
}

bool is_retryable(long status) {
  return status == 429 || status == 500 || status == 502 || status == 503 || status == 504;
}

HttpResponse send_with_retries(Http& http, const std::string& name,
                               const std::function<HttpRequest()>& make, const Retries& retries) {
  constexpr std::chrono::milliseconds kFirstPause{100};
  constexpr std::chrono::milliseconds kLongestPause{10'000};
  const auto timeout = storage_timeout();
  auto pause = kFirstPause;
  // Since the first failure of a row: what is large may take long until then.
  std::optional<Clock::time_point> end;
  std::uint64_t reached = retries.progress();
  bool warned = false;
  for (;;) {
    std::string reason;
    try {
      HttpResponse answer = http.send(make());
      if (!retries.retryable(answer)) return answer;
      reason = retries.problem(answer);
    } catch (const ConnectionError& error) {
      reason = error.what();
    }
    if (const std::uint64_t now = retries.progress(); now != reached) {
      reached = now;
      pause = kFirstPause;
      end.reset();
    }
    if (!end) end = Clock::now() + timeout;
    if (Clock::now() + pause > *end)
      throw Error(fmt::format("{}: {}; tried for {} s (SULLAE_STORAGE_TIMEOUT)", name, reason,
                              timeout.count() / 1000));
    if (!warned && pause > std::chrono::seconds{1}) {
      log::warning("{}: {}; trying again", name, reason);
      warned = true;
    }
    wait_for(pause);
    pause = std::min(2 * pause, kLongestPause);
  }
}

}  // namespace sullae::storage
