#include "storage/s3/s3_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/property_tree/ptree.hpp>
#include <utility>

#include "base/percent.h"
#include "storage/s3/client.h"
#include "storage/s3/parts.h"
#include "storage/s3/xml.h"

namespace sullae::storage {
namespace {

using boost::property_tree::ptree;

class S3Store final : public Store {
 public:
  explicit S3Store(const Location& location) : client_(location) {}

  // A key, or what keys begin with.
  std::optional<Status> status(const std::string& path) override {
    if (!path.empty()) {
      const HttpResponse answer = client_.send({.method = "HEAD", .path = path});
      if (answer.ok()) {
        return Status{.is_folder = false,
                      .bytes = client_.length(answer, path),
                      .version = client_.header(answer, "etag", path)};
      }
      // Who may not list a bucket is told 403 of what is not there; an answer to HEAD has no words,
      // and this one may have.
      if (answer.status == 403) return look_in_list(path, answer);
      if (answer.status != 404) {
        list_some(path, "", 1);
        client_.fail(path, answer);
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
      const HttpResponse answer = client_.send(
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
        throw InputError(fmt::format("{}: has changed while it was read", client_.name_of(path)));
      if (!answer.ok()) client_.fail(path, answer);
      if (done < bytes && client_.header(answer, "content-length", path) == "0")
        throw InputError(fmt::format("{}: is truncated: it ends at byte {}, {} more were expected",
                                     client_.name_of(path), offset + done, bytes - done));
    }
  }

  void write(const std::string& path, int fd, std::uint64_t bytes) override {
    if (bytes > kS3Part) {
      write_in_parts(client_, path, fd, bytes);
      return;
    }
    const HttpResponse answer = client_.send({.method = "PUT",
                                              .path = path,
                                              .upload = {.fd = fd, .bytes = bytes},
                                              .payload_hash = sha256_hex(fd, 0, bytes)});
    if (!answer.ok()) client_.fail(path, answer);
  }

  void remove(const std::string& path) override {
    std::vector<std::string> keys;
    if (!path.empty()) keys.push_back(path);  // else it is the bucket
    collect(path, keys);
    for (const auto& key : keys) {
      const HttpResponse answer = client_.send({.method = "DELETE", .path = key});
      if (!answer.ok() && answer.status != 404) client_.fail(key, answer);
    }
  }

 private:
  struct Listing {
    std::vector<Entry> entries;
    bool is_there = false;
    std::optional<Status> is_key;  ///< a file of just this name
    std::string next;
  };

  static std::string folder_of(const std::string& path) {
    return path.empty() || path.ends_with('/') ? path : path + '/';
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
      if (!entry.status.is_folder) client_.fail(path, refused);
      return kFolder;
    }
    return std::nullopt;
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
                                                // XML has not all characters that names may have.
                                                {"encoding-type", "url"},
                                                {"max-keys", std::to_string(most)}};
    if (!token.empty()) query["continuation-token"] = token;
    // The bucket itself.
    const HttpResponse answer = client_.send({.path = "", .query = query});
    if (!answer.ok()) client_.fail(prefix, answer);
    Listing listing;
    try {
      const ptree tree = parse_xml(answer.body);
      // Not all stores do what they are asked.
      const bool is_encoded = tree.get("ListBucketResult.EncodingType", "") == "url";
      for (const auto& [tag, item] : tree.get_child("ListBucketResult")) {
        if (tag == "NextContinuationToken") listing.next = item.data();
        if (tag != "Contents" && tag != "CommonPrefixes") continue;
        const bool is_folder = tag == "CommonPrefixes";
        std::string name = item.get<std::string>(is_folder ? "Prefix" : "Key");
        if (is_encoded) {
          std::ranges::replace(name, '+', ' ');
          name = percent_decode(name);
        }
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
      throw Error(
          fmt::format("{}: the list cannot be read: {}", client_.name_of(prefix), error.what()));
    }
    return listing;
  }

  // With the marks of folders, whose own names stand in no list.
  void collect(const std::string& path, std::vector<std::string>& keys) {
    const std::string folder = folder_of(path);
    const std::size_t before = keys.size();
    for (const auto& entry : list(path)) {
      if (entry.status.is_folder) {
        collect(folder + entry.name, keys);
      } else {
        keys.push_back(folder + entry.name);
      }
    }
    const bool is_folder = keys.size() > before || list_some(folder, "", 1).is_there;
    if (is_folder && !path.empty()) keys.insert(keys.end(), {folder, path + "_$folder$"});
  }

  S3Client client_;
};

}  // namespace

std::unique_ptr<Store> make_s3_store(const Location& location) {
  return std::make_unique<S3Store>(location);
}

}  // namespace sullae::storage
