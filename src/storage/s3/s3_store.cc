#include "storage/s3/s3_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/property_tree/ptree.hpp>
#include <boost/property_tree/xml_parser.hpp>
#include <mutex>
#include <sstream>
#include <utility>

#include "base/percent.h"
#include "storage/http.h"
#include "storage/s3/settings.h"

namespace sullae::storage {
namespace {

using boost::property_tree::ptree;

constexpr long kPartial = 206;

ptree parse_xml(const std::string& text) {
  ptree tree;
  std::istringstream stream(text);
  boost::property_tree::read_xml(stream, tree);
  return tree;
}

// What an answer says of an error: "AccessDenied: …"; its code alone first.
std::pair<std::string, std::string> refusal_in(const HttpResponse& answer) {
  std::string code;
  std::string message;
  try {
    const ptree tree = parse_xml(answer.body);
    code = tree.get("Error.Code", "");
    message = tree.get("Error.Message", "");
  } catch (const boost::property_tree::ptree_error&) {
    // Of HEAD there is none, and proxies say what they like.
  }
  std::string said = fmt::format("the answer is {}", answer.status);
  if (!code.empty()) said += fmt::format(", {}: {}", code, message);
  return {code, said};
}

class S3Store final : public Store {
 public:
  explicit S3Store(const Location& location)
      : bucket_(location.authority),
        environment_(process_environment()),
        settings_(read_s3_settings(environment_)) {
    // Amazon's certificate is for names without a dot before its own.
    const bool in_path = !settings_.endpoint.empty() || bucket_.find('.') != std::string::npos;
    const std::string endpoint = settings_.endpoint.empty()
                                     ? fmt::format("https://s3.{}.amazonaws.com", settings_.region)
                                     : settings_.endpoint;
    const auto host = endpoint.find("://") + 3;
    base_ = endpoint.substr(0, host);
    host_ = endpoint.substr(host);
    if (in_path) {
      prefix_ = '/' + bucket_;
    } else {
      host_ = bucket_ + '.' + host_;
    }
  }

  // A key, or what keys begin with.
  std::optional<Status> status(const std::string& path) override {
    if (!path.empty()) {
      const HttpResponse answer = send({.method = "HEAD", .path = path});
      if (answer.ok()) {
        return Status{.is_folder = false,
                      .bytes = std::stoull(header(answer, "content-length", path)),
                      .version = header(answer, "etag", path)};
      }
      // Who may not list a bucket is told 403 of what is not there; an answer to HEAD has no words, and this one may have.
      if (answer.status == 403) return look_in_list(path, answer);
      if (answer.status != 404) {
        list_some(path, "", 1);
        fail(path, answer);
      }
    }
    const auto found = list_some(folder_of(path), "", 1);
    if (found.entries.empty() && !found.is_there) return std::nullopt;
    return kFolder;
  }

  std::vector<Entry> list(const std::string& path) override {
    return list_all(folder_of(path), folder_of(path));
  }

  void read(const std::string& path, const std::string& version, std::uint64_t offset,
            std::uint64_t bytes, const std::function<void(std::string_view)>& take) override {
    std::uint64_t done = 0;
    while (done < bytes) {
      const HttpResponse answer = send(
          {.path = path,
           .headers = {{"if-match", version}},
           .range = [&] { return fmt::format("bytes={}-{}", offset + done, offset + bytes - 1); },
           .sink =
               [&](std::string_view piece) {
                 piece = piece.substr(0, bytes - done);
                 take(piece);
                 done += piece.size();
               },
           .progress =
               [&] {
                 return done;
               }});
      if (answer.status == 412)
        throw InputError(fmt::format("{}: has changed while it was read", name_of(path)));
      if (!answer.ok()) fail(path, answer);
      if (done < bytes && header(answer, "content-length", path) == "0")
        throw InputError(fmt::format("{}: is truncated: it ends at byte {}, {} more were expected",
                                     name_of(path), offset + done, bytes - done));
    }
  }

  void write(const std::string& path, int fd, std::uint64_t bytes) override {
    constexpr std::uint64_t kMost = std::uint64_t{5} << 30;
    if (bytes > kMost)
      throw InputError(
          fmt::format("{}: {} bytes are more than S3 takes at once, {}: write smaller files",
                      name_of(path), bytes, kMost));
    const HttpResponse answer = send({.method = "PUT",
                                      .path = path,
                                      .payload_hash = sha256_hex(fd, bytes),
                                      .fd = fd,
                                      .bytes = bytes});
    if (!answer.ok()) fail(path, answer);
  }

  void remove(const std::string& path) override {
    std::vector<std::string> keys = {path};
    collect(path, keys);
    for (const auto& key : keys) {
      const HttpResponse answer = send({.method = "DELETE", .path = key});
      if (!answer.ok() && answer.status != 404) fail(key, answer);
    }
  }

 private:
  struct Call {
    std::string method = "GET";
    std::string path;
    std::map<std::string, std::string> query = {};
    std::map<std::string, std::string> headers = {};
    std::string payload_hash = std::string(kEmptyHash);
    int fd = -1;
    std::uint64_t bytes = 0;
    std::function<std::string()> range = {};
    std::function<void(std::string_view)> sink = {};
    std::function<std::uint64_t()> progress = [] {
      return std::uint64_t{0};
    };
  };
  struct Listing {
    std::vector<Entry> entries;
    bool is_there = false;
    std::optional<Status> is_key;  ///< a file of just this name
    std::string next;
  };

  std::string name_of(const std::string& path) const {
    return fmt::format("s3://{}/{}", bucket_, path);
  }
  static std::string folder_of(const std::string& path) {
    return path.empty() || path.ends_with('/') ? path : path + '/';
  }
  std::string header(const HttpResponse& answer, const char* name, const std::string& path) const {
    const auto found = answer.headers.find(name);
    if (found == answer.headers.end())
      throw Error(fmt::format("{}: the answer has no {}", name_of(path), name));
    return found->second;
  }
  [[noreturn]] void fail(const std::string& path, const HttpResponse& answer) {
    const auto [code, said] = refusal_in(answer);
    const std::string name = name_of(path);
    if (answer.status == 403 || answer.status == 401)
      throw AccessDenied(
          fmt::format("{}: {} (credentials of {})", name, said, credentials().source));
    throw Error(fmt::format("{}: {}", name, said));
  }

  Credentials credentials() {
    const std::lock_guard lock(mutex_);
    if (!credentials_) credentials_ = find_credentials(environment_, http_);
    return *credentials_;
  }
  // Newer ones than `used`, if there are: another thread may have found them, or the places where they are.
  bool renew_credentials(const Credentials& used) {
    const auto is_used = [&] {
      return credentials_->access_key == used.access_key &&
             credentials_->session_token == used.session_token;
    };
    const std::lock_guard lock(mutex_);
    if (credentials_ && is_used()) credentials_ = find_credentials(environment_, http_);
    return credentials_ && !is_used();
  }

  // What a list says of a path of which HEAD may not speak.
  std::optional<Status> look_in_list(const std::string& path, const HttpResponse& refused) {
    const auto slash = path.rfind('/');
    const std::string folder = slash == std::string::npos ? "" : path.substr(0, slash + 1);
    std::vector<Entry> entries;
    try {
      entries = list_all(folder, path);
    } catch (const AccessDenied&) {
      // Who may list what is in a folder need not be allowed to list what begins with its name.
      if (list_some(folder_of(path), "", 1).is_there) return kFolder;
      throw;
    }
    for (const auto& entry : entries) {
      if (folder + entry.name != path) continue;
      if (!entry.status.is_folder) fail(path, refused);
      return kFolder;
    }
    return std::nullopt;
  }

  HttpResponse send(const Call& call) {
    Credentials used;
    HttpResponse answer = send_once(call, used);
    if (answer.status != 403 && answer.status != 400) return answer;
    const auto code = refusal_in(answer).first;
    // HEAD says nothing more than the number.
    if (code != "ExpiredToken" && code != "InvalidToken" && call.method != "HEAD") return answer;
    return renew_credentials(used) ? send_once(call, used) : answer;
  }

  HttpResponse send_once(const Call& call, Credentials& used) {
    return send_with_retries(
        http_, name_of(call.path),
        [&] {
          SignedRequest request{.method = call.method,
                                .host = host_,
                                .path = prefix_ + '/' + percent_encode_path(call.path),
                                .query = call.query,
                                .headers = call.headers,
                                .payload_hash = call.payload_hash};
          if (call.range) request.headers["range"] = call.range();
          const std::string query = query_of(call.query);
          used = credentials();
          return HttpRequest{
              .method = call.method,
              .url = base_ + host_ + request.path + (query.empty() ? "" : "?" + query),
              .headers = sign(request, used, settings_.region, amazon_time()),
              .upload_fd = call.fd,
              .upload_bytes = call.bytes,
              .sink = call.sink,
              .sink_status = call.range ? kPartial : 0};
        },
        {.progress = call.progress,
         .problem = [](const HttpResponse& said) { return refusal_in(said).second; },
         .retryable =
             [](const HttpResponse& said) {
               return is_retryable(said.status) || refusal_in(said).first == "RequestTimeout";
             }});
  }

  // Of a folder, what begins with `prefix`.
  std::vector<Entry> list_all(const std::string& folder, const std::string& prefix) {
    std::vector<Entry> entries;
    std::string token;
    do {
      auto some = list_some(prefix, token, 1000);
      for (auto& entry : some.entries) {
        entry.name = prefix.substr(folder.size()) + entry.name;
        // Hadoop's own marks of folders.
        if (!entry.name.ends_with("_$folder$")) entries.push_back(std::move(entry));
      }
      if (some.is_key)
        entries.push_back({.name = prefix.substr(folder.size()), .status = *some.is_key});
      token = some.next;
    } while (!token.empty());
    std::erase_if(entries, [](const Entry& entry) { return entry.name.empty(); });
    std::ranges::sort(entries, {}, &Entry::name);
    return entries;
  }

  Listing list_some(const std::string& prefix, const std::string& token, int most) {
    std::map<std::string, std::string> query = {{"list-type", "2"},
                                                {"prefix", prefix},
                                                {"delimiter", "/"},
                                                {"max-keys", std::to_string(most)}};
    if (!token.empty()) query["continuation-token"] = token;
    // The bucket itself.
    const HttpResponse answer = send({.path = "", .query = query});
    if (!answer.ok()) fail(prefix, answer);
    Listing listing;
    try {
      const ptree tree = parse_xml(answer.body);
      for (const auto& [tag, item] : tree.get_child("ListBucketResult")) {
        if (tag == "NextContinuationToken") listing.next = item.data();
        if (tag != "Contents" && tag != "CommonPrefixes") continue;
        const bool is_folder = tag == "CommonPrefixes";
        std::string name = item.get<std::string>(is_folder ? "Prefix" : "Key");
        listing.is_there = true;
        name = name.substr(std::min(prefix.size(), name.size()));
        const bool is_below = name == "/";
        if (is_folder && name.ends_with('/')) name.pop_back();
        if (name.empty() && is_below) {
          // "path/" of the prefix "path".
          listing.is_key = kFolder;
          continue;
        }
        Status status = is_folder ? kFolder : Status();
        if (!is_folder) {
          status.bytes = item.get<std::uint64_t>("Size");
          status.version = item.get("ETag", "");
        }
        if (name.empty()) {
          if (!prefix.ends_with('/')) listing.is_key = status;
          continue;
        }
        listing.entries.push_back({.name = std::move(name), .status = std::move(status)});
      }
    } catch (const boost::property_tree::ptree_error& error) {
      throw Error(fmt::format("{}: the list cannot be read: {}", name_of(prefix), error.what()));
    }
    return listing;
  }

  void collect(const std::string& path, std::vector<std::string>& keys) {
    const std::string folder = folder_of(path);
    for (const auto& entry : list(path)) {
      if (entry.status.is_folder) {
        collect(folder + entry.name, keys);
      } else {
        keys.push_back(folder + entry.name);
      }
    }
  }

  std::string bucket_;
  Environment environment_;
  S3Settings settings_;
  std::string base_;
  std::string host_;
  std::string prefix_;  ///< of paths
  Http http_;
  std::mutex mutex_;  // guards:
  std::optional<Credentials> credentials_;
};

}  // namespace

std::unique_ptr<Store> make_s3_store(const Location& location) {
  return std::make_unique<S3Store>(location);
}

}  // namespace sullae::storage
