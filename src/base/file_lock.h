// Locks of whole files, which say that a process lives: they end with it, however it ends, and are
// seen from other hosts where the file system has locks (NFS 4, Lustre, GPFS).
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>

#include "base/deadline.h"
#include "base/fd.h"

namespace sullae {

/// Takes the lock of an open file, which must be writable, for as long as the file is open; false
/// where another open file has it. Of the open file and not of the process, so that closing another
/// descriptor does not lose it (fcntl's F_OFD_SETLK). Throws Error.
bool try_lock(int fd, const std::filesystem::path& file);

/// Opens `file`, made with `mode` where there is none, and takes its lock as soon as nobody else
/// has it. Empty where somebody has it until the deadline. Throws Error.
UniqueFd lock_file(const std::filesystem::path& file, mode_t mode, const Deadline& deadline);

/// Takes the lock of a folder itself, which leaves no file in it, for as long as what is returned
/// is open (flock(2): fcntl's locks are of files that can be written). Empty where somebody else
/// has it; without a lock where the file system has none. Throws Error where there is no such
/// folder.
UniqueFd try_lock_folder(const std::filesystem::path& folder);

/// Before the file is closed: forks that have it, too, then have no lock.
void unlock(int fd);

/// Whether a process has the lock of `file`; nothing where it is there and cannot be looked at.
/// Asking takes nothing, and keeps nobody from taking it.
std::optional<bool> is_locked(const std::filesystem::path& file);

}  // namespace sullae
