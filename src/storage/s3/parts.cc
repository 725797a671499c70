#include "storage/s3/parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/log.h"
#include "storage/s3/xml.h"
#include "storage/spool.h"

namespace sullae::storage {
namespace {

using boost::property_tree::ptree_error;

constexpr std::uint64_t kMostParts = 10'000;

std::string begin_upload(S3Client& client, const std::string& path) {
  const UniqueFd nothing = make_spool();  // for a Content-Length, without which some refuse a POST
  const HttpResponse answer = client.send({.method = "POST",
                                           .path = path,
                                           .query = {{"uploads", ""}},
                                           .upload = {.fd = nothing.get()}});
  if (!answer.ok()) client.fail(path, answer);
  try {
    return parse_xml(answer.body).get<std::string>("InitiateMultipartUploadResult.UploadId");
  } catch (const ptree_error& error) {
    throw Error(fmt::format("{}: the answer to a new upload cannot be read: {}",
                            client.name_of(path), error.what()));
  }
}

// The entity tag that S3 gives it.
std::string send_part(S3Client& client, const std::string& path, const std::string& id,
                      std::size_t number, const Upload& part) {
  const HttpResponse answer =
      client.send({.method = "PUT",
                   .path = path,
                   .query = {{"partNumber", std::to_string(number)}, {"uploadId", id}},
                   .upload = part,
                   .payload_hash = sha256_hex(part.fd, part.offset, part.bytes)});
  if (!answer.ok()) client.fail(path, answer);
  return client.header(answer, "etag", path);
}

std::optional<std::uint64_t> size_of(S3Client& client, const std::string& path) {
  const HttpResponse answer = client.send({.method = "HEAD", .path = path});
  if (!answer.ok()) return std::nullopt;
  return client.length(answer, path);
}

void end_upload(S3Client& client, const std::string& path, const std::string& id,
                const std::vector<std::string>& tags, std::uint64_t bytes) {
  std::string text = "<CompleteMultipartUpload>";
  for (std::size_t i = 0; i < tags.size(); ++i)
    text += fmt::format("<Part><PartNumber>{}</PartNumber><ETag>{}</ETag></Part>", i + 1, tags[i]);
  text += "</CompleteMultipartUpload>";
  const UniqueFd spool = make_spool();
  write_spool(spool.get(), 0, text.data(), text.size());
  const HttpResponse answer = client.send({.method = "POST",
                                           .path = path,
                                           .query = {{"uploadId", id}},
                                           .upload = {.fd = spool.get(), .bytes = text.size()},
                                           .payload_hash = sha256_hex(text)});
  // Its status is sent before it is known whether it went well.
  const auto code = refusal_in(answer).first;
  if (answer.ok() && code.empty()) return;
  // The answer to the first attempt was lost.
  if (code == "NoSuchUpload" && size_of(client, path) == bytes) return;
  client.fail(path, answer);
}

}  // namespace

void write_in_parts(S3Client& client, const std::string& path, int fd, std::uint64_t bytes) {
  const std::uint64_t size = std::max(kS3Part, (bytes + kMostParts - 1) / kMostParts);
  const std::string id = begin_upload(client, path);
  try {
    std::vector<std::string> tags;
    for (std::uint64_t offset = 0; offset < bytes; offset += size)
      tags.push_back(
          send_part(client, path, id, tags.size() + 1,
                    {.fd = fd, .offset = offset, .bytes = std::min(size, bytes - offset)}));
    end_upload(client, path, id, tags, bytes);
  } catch (const Error&) {
    // Else its parts are kept, and paid for, for ever.
    try {
      const HttpResponse answer =
          client.send({.method = "DELETE", .path = path, .query = {{"uploadId", id}}});
      if (!answer.ok()) client.fail(path, answer);
    } catch (const Error& error) {
      log::warning("{}: its parts may be left in the store: {}", client.name_of(path),
                   error.what());
    }
    throw;
  }
}

}  // namespace sullae::storage
