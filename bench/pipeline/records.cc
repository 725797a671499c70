// How fast TFRecords are read and checked, against reading the same file and doing nothing: both
// from the disk cache.
//
//   pipeline_records FILE
//
// Prints bytes a second of read(2) alone, and of TFRecordReader.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "sullae/data/tfrecord.h"

namespace {

template <class Read>
double rate_of(const Read& read) {
  std::vector<double> rates;
  for (int round = 0; round < 5; ++round) {
    const auto start = std::chrono::steady_clock::now();
    const auto bytes = static_cast<double>(read());
    rates.push_back(
        bytes / std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::sort(rates.begin(), rates.end());
  return rates[rates.size() / 2];
}

std::size_t read_alone(const char* file) {
  const int fd = ::open(file, O_RDONLY);
  std::vector<char> buffer(std::size_t{1} << 19);
  std::size_t bytes = 0;
  for (ssize_t n; (n = ::read(fd, buffer.data(), buffer.size())) > 0;)
    bytes += static_cast<std::size_t>(n);
  ::close(fd);
  return bytes;
}

std::size_t read_records(const char* file) {
  sullae::data::TFRecordReader reader(file);
  std::size_t bytes = 0;
  while (const auto record = reader.next()) bytes += record->size() + 16;
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  read_alone(argv[1]);
  std::printf("%f %f\n", rate_of([&] { return read_alone(argv[1]); }),
              rate_of([&] { return read_records(argv[1]); }));
}
