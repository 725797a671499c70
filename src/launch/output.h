// The ranks' output on the terminal and in files.
#pragma once

#include <poll.h>

#include <climits>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sullae {

struct OutputOptions {
  /// One file a rank is written here, "rank-<n>.log", and one a parameter server, "ps-<n>.log";
  /// empty writes none.
  std::filesystem::path directory;
  bool tag = true;
  /// Colours the tags.
  bool colour = false;
  /// What is numbered from here on are parameter servers.
  int ranks = INT_MAX;
  /// To what the files hold already.
  bool append = false;
};

/// Puts lines together and tags them with their rank. Used by one thread.
class RankOutput {
 public:
  /// Throws Error where the directory cannot be made.
  explicit RankOutput(OutputOptions options);
  ~RankOutput();
  RankOutput(const RankOutput&) = delete;
  RankOutput& operator=(const RankOutput&) = delete;

  /// `descriptor` is 1 or 2.
  void write(int rank, int descriptor, std::string_view bytes);
  /// Writes what is left of a rank's last lines, and closes its file. It may write again.
  void finish(int rank);
  /// That of all ranks.
  void finish_all();
  /// A line of the launcher's own, to standard error.
  void say(std::string_view line);
  /// False once nobody reads the output any more.
  bool open() const { return open_; }

  // What is written waits here for who reads it, and the caller waits for other things beside.
  /// Whether so much waits that no more is to be written.
  bool is_full() const { return waiting_bytes() > kMostWaiting; }
  bool has_more() const { return waiting_bytes() > 0; }
  void add_to_poll(std::vector<pollfd>& polled) const;
  /// Writes what is taken now.
  void send_on();

 private:
  static constexpr std::size_t kMostWaiting = std::size_t{1} << 20;

  // What waits for who reads a file. Where standard output and standard error are one, it is of
  // both, so that lines stay whole and in their order.
  struct Queue {
    int descriptor;
    std::size_t piece;  // for which there is room where poll() says so
    std::string waiting = {};
  };

  std::string name_of(int rank) const;
  void write_file(int rank, std::string_view bytes);
  void write_line(int rank, int descriptor, std::string_view line);
  void say_once(const std::string& what);
  void send_on(Queue& queue);
  void put(int descriptor, std::string_view text);
  std::size_t waiting_bytes() const;

  OutputOptions options_;
  std::map<std::pair<int, int>, std::string> partial_;  // by rank and descriptor
  std::map<int, std::ofstream> files_;                  // of ranks that run
  std::set<int> begun_;         // whose files are not to be emptied any more
  std::set<std::string> said_;  // what cannot be written, and why
  std::vector<Queue>
      queues_;  // of standard output, and, where it is another file, of standard error
  bool open_ = true;
};

}  // namespace sullae
