#include "train/monitor/event_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <system_error>

#include "base/host.h"
#include "event.pb.h"
#include "sullae/data/tfrecord.h"
#include "sullae/error.h"
#include "train/monitor/scalars.h"

namespace sullae::train {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

EventFile::EventFile(const std::filesystem::path& folder, int interval) : interval_(interval) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  file_ = folder / fmt::format("events.out.tfevents.{:.0f}.{}.{}", now(), host_name(), ::getpid());
  stream_.open(file_, std::ios::binary);
  if (error || !stream_)
    throw Error(fmt::format("--tensorboard-dir {}: cannot be written", folder.string()));
  proto::Event event;
  event.set_wall_time(now());
  event.set_file_version("brain.Event:2");
  append(event.SerializeAsString());
}

void EventFile::stepped(const Moment& m) {
  if (is_due(m, interval_)) write(m.total_steps, scalars_of(m));
}

void EventFile::epoch_ended(const Moment& m, const EpochReport& epoch) {
  write(m.total_steps, scalars_of(epoch, tested_));
}

void EventFile::write(std::int64_t step, const std::map<std::string, double>& scalars) {
  proto::Event event;
  event.set_wall_time(now());
  event.set_step(step);
  for (const auto& [tag, number] : scalars) {
    auto& value = *event.mutable_summary()->add_value();
    value.set_tag(tag);
    value.set_simple_value(static_cast<float>(number));
  }
  best_effort_.run([&] { append(event.SerializeAsString()); });
}

void EventFile::append(const std::string& event) {
  if (!stream_) cut_off();
  const std::string record = data::frame_record(event);
  errno = 0;
  stream_.write(record.data(), static_cast<std::streamsize>(record.size()));
  stream_.flush();
  if (!stream_)
    throw Error(fmt::format("{}: cannot be written: {}", file_.string(),
                            std::error_code(errno, std::generic_category()).message()));
  written_ += record.size();
}

// A part of a record would have readers stop there.
void EventFile::cut_off() {
  stream_.close();
  stream_.clear();
  std::error_code error;
  std::filesystem::resize_file(file_, written_, error);
  if (error) {
    stream_.setstate(std::ios::failbit);
    throw Error(fmt::format("{}: cannot be cut off: {}", file_.string(), error.message()));
  }
  stream_.open(file_, std::ios::binary | std::ios::app);
}

}  // namespace sullae::train
