// Where the files of a tar archive are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/record/byte_file.h"

namespace sullae::data {

struct TarMember {
  std::string name;
  std::uint64_t offset = 0;  ///< of its content
  std::uint64_t bytes = 0;
};

/// The regular files of an archive, from its headers: contents are not read. A hard link is a
/// member with the content of the one before that it names. `problem` says what ended the search
/// early, if anything did.
struct TarIndex {
  std::vector<TarMember> members;
  std::size_t other_links = 0;  ///< symbolic ones, and those to what is not there
  std::string problem;
};
TarIndex index_tar(const ByteFile& file);

}  // namespace sullae::data
