#include "storage/webhdfs/webhdfs_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <type_traits>
#include <utility>

#include "base/environment.h"
#include "base/file.h"
#include "base/log.h"
#include "base/percent.h"
#include "storage/http.h"

namespace sullae::storage {
namespace {

using nlohmann::json;
using Query = std::vector<std::pair<std::string, std::string>>;

// Hadoop says null for an exception without words.
std::string text_of(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// What Hadoop says of an error; null where the answer is somebody else's, a proxy's, say.
json exception_in(const HttpResponse& answer) {
  const json said = json::parse(answer.body, nullptr, false);
  if (!said.is_object()) return nullptr;
  const auto found = said.find("RemoteException");
  return found != said.end() && found->is_object() ? *found : json();
}

// "FileNotFoundException: …"; of a proxy the number alone.
std::string problem_of(const HttpResponse& answer) {
  const json exception = exception_in(answer);
  std::string problem = fmt::format("the answer is {}", answer.status);
  if (!exception.is_null())
    problem +=
        fmt::format(", {}: {}", text_of(exception, "exception"), text_of(exception, "message"));
  return problem;
}

// The exception's name before the number: name nodes that start, or stand by, and data nodes that
// reach nobody say 403 (Hadoop's ExceptionHandler), and HttpFS says 500 also where it refuses.
bool retryable(const HttpResponse& answer) {
  if (answer.ok()) return false;
  const json exception = exception_in(answer);
  if (exception.is_null()) return is_retryable(answer.status);
  static const std::set<std::string> kPassing = {
      "BlockMissingException",   "ClosedChannelException", "ConnectException",
      "ConnectTimeoutException", "EOFException",           "NoNamenodesAvailableException",
      "NoRouteToHostException",  "RetriableException",     "SafeModeException",
      "SocketException",         "SocketTimeoutException", "StandbyException"};
  return kPassing.contains(text_of(exception, "exception"));
}

Status status_of(const json& file) {
  if (file.at("type") == "DIRECTORY") return kFolder;
  return {.is_folder = false,
          .bytes = file.at("length").get<std::uint64_t>(),
          .version = std::to_string(file.at("modificationTime").get<std::int64_t>())};
}

class WebHdfsStore final : public Store {
 public:
  explicit WebHdfsStore(const Location& location)
      : scheme_(location.scheme),
        authority_(location.authority),
        base_(fmt::format("{}://{}/webhdfs/v1/", scheme_ == "swebhdfs" ? "https" : "http",
                          authority_)) {
    const auto environment = process_environment();
    user_ = environment("HADOOP_USER_NAME").value_or(environment("USER").value_or(""));
  }

  std::optional<Status> status(const std::string& path) override {
    const HttpResponse answer = ask("GET", path, {{"op", "GETFILESTATUS"}});
    if (answer.status == 404) return std::nullopt;
    return read_answer(path, answer,
                       [](const json& said) { return status_of(said.at("FileStatus")); });
  }

  std::vector<Entry> list(const std::string& path) override {
    const HttpResponse answer = ask("GET", path, {{"op", "LISTSTATUS"}});
    return read_answer(path, answer, [](const json& said) {
      std::vector<Entry> entries;
      for (const json& file : said.at("FileStatuses").at("FileStatus")) {
        // Of a file it is the file itself, without a name.
        const std::string name = file.at("pathSuffix");
        if (!name.empty()) entries.push_back({.name = name, .status = status_of(file)});
      }
      std::ranges::sort(entries, {}, &Entry::name);
      return entries;
    });
  }

  void read(const std::string& path, const std::string& version, std::uint64_t offset,
            std::uint64_t bytes, const std::function<void(std::string_view)>& take) override {
    // HDFS gives no version with what is read, and whoever goes on opens it anew: it is of this
    // version if that is there before and after.
    const auto expect_version = [&] {
      if (const auto now = status(path); !now || now->version != version)
        throw InputError(fmt::format("{}: has changed while it was read", name_of(path)));
    };
    expect_version();
    std::uint64_t done = 0;
    while (done < bytes) {
      const std::uint64_t before = done;
      const HttpResponse answer = send_with_retries(
          http_, name_of(path),
          [&] {
            return HttpRequest{.url = url_of(path, {{"op", "OPEN"},
                                                    {"offset", std::to_string(offset + done)},
                                                    {"length", std::to_string(bytes - done)}}),
                               .follow = true,
                               .sink = [&](std::string_view piece) {
                                 piece = piece.substr(0, bytes - done);
                                 take(piece);
                                 done += piece.size();
                               }};
          },
          {.progress = [&] { return done; }, .problem = &problem_of, .retryable = &retryable});
      if (!answer.ok()) fail(path, answer);
      if (done == before)
        throw InputError(fmt::format("{}: is truncated: it ends at byte {}, {} more were expected",
                                     name_of(path), offset + done, bytes - done));
    }
    expect_version();
  }

  // Under another name first: what is half written has no name that is read.
  void write(const std::string& path, int fd, std::uint64_t bytes) override {
    const auto slash = path.rfind('/');
    const std::string folder = slash == std::string::npos ? "" : path.substr(0, slash + 1);
    const std::string temporary =
        fmt::format("{}.{}{}", folder, path.substr(folder.size()), temporary_suffix());
    const auto make = [&] {
      // The name node says where the data go, each time.
      const HttpResponse where = http_.send(
          {.method = "PUT", .url = url_of(temporary, {{"op", "CREATE"}, {"overwrite", "true"}})});
      const auto location = where.headers.find("location");
      if (retryable(where)) throw ConnectionError(problem_of(where));
      if (location == where.headers.end()) fail(path, where);
      return HttpRequest{.method = "PUT",
                         .url = location->second,
                         .headers = {"Content-Type: application/octet-stream"},
                         .upload = {.fd = fd, .bytes = bytes}};
    };
    try {
      const HttpResponse answer = send_with_retries(
          http_, name_of(path), make, {.problem = &problem_of, .retryable = &retryable});
      if (!answer.ok()) fail(path, answer);
      replace(path, temporary, bytes);
    } catch (const Error&) {
      remove_what_is_left(temporary);
      throw;
    }
  }

  void remove(const std::string& path) override {
    const HttpResponse answer = ask("DELETE", path, {{"op", "DELETE"}, {"recursive", "true"}});
    if (!answer.ok() && answer.status != 404) fail(path, answer);
  }

 private:
  std::string name_of(const std::string& path) const {
    return fmt::format("{}://{}/{}", scheme_, authority_, path);
  }
  std::string url_of(const std::string& path, Query query) const {
    if (!user_.empty()) query.emplace_back("user.name", user_);
    std::string url = base_ + percent_encode_path(path);
    char mark = '?';
    for (const auto& [name, value] : query) {
      url += mark + name + '=' + percent_encode(value);
      mark = '&';
    }
    return url;
  }
  HttpResponse ask(const char* method, const std::string& path, const Query& query) {
    return send_with_retries(
        http_, name_of(path),
        [&] { return HttpRequest{.method = method, .url = url_of(path, query)}; },
        {.problem = &problem_of, .retryable = &retryable});
  }
  [[noreturn]] void fail(const std::string& path, const HttpResponse& answer) const {
    const std::string problem = fmt::format("{}: {}", name_of(path), problem_of(answer));
    if (answer.status == 403 || answer.status == 401) throw AccessDenied(problem);
    throw Error(problem);
  }

  template <class Read>
  std::invoke_result_t<Read, const json&> read_answer(const std::string& path,
                                                      const HttpResponse& answer,
                                                      const Read& read_json) const {
    if (!answer.ok()) fail(path, answer);
    try {
      return read_json(json::parse(answer.body));
    } catch (const json::exception& error) {
      throw Error(
          fmt::format("{}: the answer is none of WebHDFS: {}", name_of(path), error.what()));
    }
  }

  void replace(const std::string& path, const std::string& by, std::uint64_t bytes) {
    if (move(by, path, bytes)) return;
    // Of who knows no option to replace: there is neither for a moment.
    remove(path);
    if (!move(by, path, bytes))
      throw Error(fmt::format("{}: cannot be renamed from {}", name_of(path), name_of(by)));
  }

  // False where there is something of that name, which is not replaced. An answer that was lost
  // leaves open whether it was done.
  bool move(const std::string& from, const std::string& to, std::uint64_t bytes) {
    const HttpResponse answer = ask(
        "PUT", from, {{"op", "RENAME"}, {"destination", "/" + to}, {"renameoptions", "OVERWRITE"}});
    if (answer.ok() && answer.body.empty()) return true;
    const bool done = answer.status != 404 && read_answer(from, answer, [](const json& said) {
                        return said.at("boolean").get<bool>();
                      });
    if (done || status(from)) return done;
    const auto moved = status(to);
    return moved && moved->bytes == bytes;
  }

  // What went wrong is told, and not that this did, too.
  void remove_what_is_left(const std::string& temporary) {
    try {
      const HttpResponse answer =
          http_.send({.method = "DELETE", .url = url_of(temporary, {{"op", "DELETE"}})});
      if (!answer.ok()) log::info("{}: {}", name_of(temporary), problem_of(answer));
    } catch (const Error& error) {
      log::info("{}: {}", name_of(temporary), error.what());
    }
  }

  std::string scheme_;
  std::string authority_;
  std::string base_;
  std::string user_;
  Http http_;
};

}  // namespace

std::unique_ptr<Store> make_webhdfs_store(const Location& location) {
  return std::make_unique<WebHdfsStore>(location);
}

}  // namespace sullae::storage
