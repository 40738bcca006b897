#include "device/accesses.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>

#include "device/pinned.h"
#include "device/places.h"

namespace fsdp::testing::device {

namespace {

using Number = uint32_t;  // of a stream

struct Access {
  Number stream = 0;
  uint64_t time = 0;  // 0: none
  bool write = false;
  const char* what = nullptr;
  Place place = 0;
};

// Bytes of one history: a write, and the reads since.
struct Piece {
  uintptr_t end = 0;
  Access write;
  std::vector<Access> reads;
};

struct StreamFacts {
  std::string name;
  Clock clock;  // what comes before its next kernel; its own entry counts its kernels
  Counts counts;
};

struct State {
  std::mutex mutex;
  bool logging = false;
  std::map<c10::Stream, Number, bool (*)(const c10::Stream&, const c10::Stream&)> numbers{
      [](const c10::Stream& a, const c10::Stream& b) {
        return std::pair(a.device_index(), a.id()) < std::pair(b.device_index(), b.id());
      }};
  std::vector<StreamFacts> streams;
  Clock host;
  std::map<uintptr_t, Piece> pieces;  // by where they begin; they do not overlap
  std::vector<Event> log;
  Counts counts;
  std::vector<std::string> findings;
  std::set<std::string> found;                                // those of a pair of operators that were reported
  std::vector<std::pair<std::string, std::string>> left_out;  // waits: who waits, and for whom
};

State& state() {
  static auto* all = new State;
  return *all;
}

void join(Clock& clock, const Clock& other) {
  if (clock.size() < other.size()) clock.resize(other.size());
  for (size_t i = 0; i < other.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}

bool covers(const Clock& clock, const Access& access) {
  return access.stream < clock.size() && clock[access.stream] >= access.time;
}

std::string usual_name(const c10::Stream& stream) {
  const std::string device = "cuda:" + std::to_string(stream.device_index());
  return device + (stream.id() == 0 ? " default" : " stream " + std::to_string(stream.id()));
}

Number number_of(State& s, const c10::Stream& stream) {
  const auto [found, is_new] = s.numbers.try_emplace(stream, static_cast<Number>(s.streams.size()));
  if (is_new) s.streams.push_back({.name = usual_name(stream), .clock = {}, .counts = {}});
  return found->second;
}

std::string text_of_access(const State& s, const Access& access) {
  return std::string("    ") + access.what + (access.write ? " writes" : " reads") + ", on " +
         s.streams[access.stream].name + ", called from\n" + text_of(access.place);
}

void report(State& s, const Access& first, const Access& second, const Range& range) {
  const std::string key = first.what + s.streams[first.stream].name + second.what + s.streams[second.stream].name +
                          std::to_string(first.place) + "/" + std::to_string(second.place);
  if (!s.found.insert(key).second) return;
  s.findings.push_back("missing wait: no wait orders two accesses to the same " +
                       std::to_string(range.end - range.begin) + " bytes\n" + text_of_access(s, first) +
                       text_of_access(s, second));
}

// Cuts the piece that has `place` within it in two.
void cut_at(State& s, uintptr_t place) {
  auto next = s.pieces.upper_bound(place);
  if (next == s.pieces.begin()) return;
  auto& [begin, piece] = *std::prev(next);
  if (begin == place || piece.end <= place) return;
  Piece second = piece;
  piece.end = place;
  s.pieces.emplace(place, std::move(second));
}

template <typename Visit>
void for_pieces_in(State& s, const Range& range, Visit&& visit) {
  cut_at(s, range.begin);
  cut_at(s, range.end);
  for (auto at = s.pieces.lower_bound(range.begin); at != s.pieces.end() && at->first < range.end;) {
    auto next = std::next(at);
    visit(at);
    at = next;
  }
}

void note_read(State& s, const Range& range, const Access& access, const Clock& before) {
  uintptr_t covered = range.begin;
  std::vector<Range> gaps;
  for_pieces_in(s, range, [&](auto at) {
    Piece& piece = at->second;
    if (piece.write.time != 0 && !covers(before, piece.write)) report(s, piece.write, access, {at->first, piece.end});
    std::erase_if(piece.reads, [&](const Access& read) { return covers(before, read); });
    piece.reads.push_back(access);
    if (at->first > covered) gaps.push_back({covered, at->first});
    covered = piece.end;
  });
  if (covered < range.end) gaps.push_back({covered, range.end});
  for (const Range& gap : gaps) s.pieces.emplace(gap.begin, Piece{gap.end, {}, {access}});
}

void note_write(State& s, const Range& range, const Access& access, const Clock& before) {
  for_pieces_in(s, range, [&](auto at) {
    const Piece& piece = at->second;
    const Range common{at->first, piece.end};
    if (piece.write.time != 0 && !covers(before, piece.write)) report(s, piece.write, access, common);
    for (const Access& read : piece.reads)
      if (!covers(before, read)) report(s, read, access, common);
    s.pieces.erase(at);
  });
  s.pieces.emplace(range.begin, Piece{range.end, access, {}});
}

void host_learns(State& s, const Clock& clock) {
  join(s.host, clock);
  release_pinned([&](uint32_t stream, uint64_t time) { return stream < s.host.size() && s.host[stream] >= time; });
}

constexpr char kHost[] = "host";

bool leaves_out(const State& s, const std::string& waiting, const std::string& other) {
  return std::ranges::any_of(
      s.left_out, [&](const auto& pair) { return waiting.starts_with(pair.first) && other.starts_with(pair.second); });
}

void note_wait(State& s, Event::Kind kind, const char* what, Number stream, const std::string& other) {
  if (!s.logging) return;
  int64_t Counts::*const count = kind == Event::Kind::HostWait ? &Counts::host_waits : &Counts::stream_waits;
  ++(s.counts.*count);
  ++(s.streams[stream].counts.*count);
  s.log.push_back({kind, what, s.streams[stream].name, other, {}, {}});
}

}  // namespace

void note_launch(const c10::Stream& stream, const char* what, std::vector<Range> reads, std::vector<Range> writes) {
  State& s = state();
  std::lock_guard lock(s.mutex);
  const Number number = number_of(s, stream);
  StreamFacts& facts = s.streams[number];
  join(facts.clock, s.host);
  if (facts.clock.size() <= number) facts.clock.resize(number + 1);
  const uint64_t time = ++facts.clock[number];
  if (!s.logging) return;
  // What a kernel writes in place is a write.
  std::erase_if(reads, [&](const Range& read) {
    return std::ranges::any_of(writes,
                               [&](const Range& write) { return write.begin == read.begin && write.end == read.end; });
  });
  Access access{number, time, false, what, this_place()};
  for (const Range& range : reads) note_read(s, range, access, facts.clock);
  access.write = true;
  for (const Range& range : writes) note_write(s, range, access, facts.clock);
  for (const Range& range : reads) hold_pinned(range, false, {number, time, what, facts.name});
  for (const Range& range : writes) hold_pinned(range, true, {number, time, what, facts.name});
  ++facts.counts.launches;
  ++s.counts.launches;
  s.log.push_back({Event::Kind::Launch, what, facts.name, {}, std::move(reads), std::move(writes)});
}

Clock clock_of(const c10::Stream& stream) {
  State& s = state();
  std::lock_guard lock(s.mutex);
  StreamFacts& facts = s.streams[number_of(s, stream)];
  join(facts.clock, s.host);
  return facts.clock;
}

void note_stream_wait(const c10::Stream& stream, const c10::Stream& other, const Clock& clock) {
  State& s = state();
  std::lock_guard lock(s.mutex);
  const Number number = number_of(s, stream), other_number = number_of(s, other);
  if (number == other_number) return;
  note_wait(s, Event::Kind::StreamWait, "event", number, s.streams[other_number].name);
  if (!leaves_out(s, s.streams[number].name, s.streams[other_number].name)) join(s.streams[number].clock, clock);
}

void note_host_wait(const char* what, const c10::Stream& stream, const Clock& clock) {
  State& s = state();
  std::lock_guard lock(s.mutex);
  const Number number = number_of(s, stream);
  note_wait(s, Event::Kind::HostWait, what, number, kHost);
  if (!leaves_out(s, kHost, s.streams[number].name)) host_learns(s, clock);
}

void note_host_wait(const char* what, const c10::Stream& stream) { note_host_wait(what, stream, clock_of(stream)); }

void note_host_wait_for_device(c10::DeviceIndex device) {
  State& s = state();
  std::lock_guard lock(s.mutex);
  Clock all;
  for (const auto& [stream, number] : s.numbers)
    if (stream.device_index() == device) join(all, s.streams[number].clock);
  note_wait(s, Event::Kind::HostWait, "synchronize",
            number_of(s, c10::Stream(c10::Stream::DEFAULT, {c10::kCUDA, device})), kHost);
  host_learns(s, all);
}

bool host_has_waited_for(const Clock& clock) {
  State& s = state();
  std::lock_guard lock(s.mutex);
  for (size_t i = 0; i < clock.size(); ++i)
    if (clock[i] > (i < s.host.size() ? s.host[i] : 0)) return false;
  return true;
}

void note_host_knows(const Clock& clock) {
  State& s = state();
  std::lock_guard lock(s.mutex);
  host_learns(s, clock);
}

void forget_accesses(const Range& range, const std::vector<c10::Stream>& streams) {
  State& s = state();
  std::lock_guard lock(s.mutex);
  if (s.pieces.empty()) return;
  for (const c10::Stream& stream : streams) {
    const Number number = number_of(s, stream);
    for_pieces_in(s, range, [&](auto at) {
      Piece& piece = at->second;
      std::erase_if(piece.reads, [&](const Access& read) { return read.stream == number; });
      if (piece.write.stream == number) piece.write = {};
    });
  }
}

void forget_all_accesses(const Range& range) {
  State& s = state();
  std::lock_guard lock(s.mutex);
  if (!s.pieces.empty()) for_pieces_in(s, range, [&](auto at) { s.pieces.erase(at); });
}

void note_host_access(const void* pointer, const char* copy, const std::string& stream) {
  State& s = state();
  std::lock_guard lock(s.mutex);
  if (!s.found.insert("host/" + std::to_string(reinterpret_cast<uintptr_t>(pointer) / 4096)).second) return;
  s.findings.push_back("missing wait: the host uses pinned memory that a copy under way uses\n    " +
                       std::string(copy) + ", on " + stream + "\n    the host, in\n" + text_of(this_place()));
}

std::string name_of(const c10::Stream& stream) {
  State& s = state();
  std::lock_guard lock(s.mutex);
  return s.streams[number_of(s, stream)].name;
}

void name_stream(const c10::Stream& stream, const std::string& name) {
  State& s = state();
  std::lock_guard lock(s.mutex);
  s.streams[number_of(s, stream)].name = name;
}

void leave_out_waits(const std::string& waiting, const std::string& other) {
  State& s = state();
  std::lock_guard lock(s.mutex);
  s.left_out.emplace_back(waiting, other);
}

void leave_out_no_waits() {
  State& s = state();
  std::lock_guard lock(s.mutex);
  s.left_out.clear();
}

void start_log() {
  State& s = state();
  std::lock_guard lock(s.mutex);
  s.logging = true;
  s.pieces.clear();
  s.log.clear();
  s.findings.clear();
  s.found.clear();
  s.counts = {};
  for (StreamFacts& facts : s.streams) facts.counts = {};
}

void stop_log() {
  State& s = state();
  std::lock_guard lock(s.mutex);
  s.logging = false;
  release_pinned([](uint32_t, uint64_t) { return true; });
}

std::vector<Event> log() {
  State& s = state();
  std::lock_guard lock(s.mutex);
  return s.log;
}

Counts counts() {
  State& s = state();
  std::lock_guard lock(s.mutex);
  return s.counts;
}

Counts counts(const std::string& stream) {
  State& s = state();
  std::lock_guard lock(s.mutex);
  Counts sum;
  for (const StreamFacts& facts : s.streams) {
    if (facts.name != stream) continue;
    sum.launches += facts.counts.launches;
    sum.stream_waits += facts.counts.stream_waits;
    sum.host_waits += facts.counts.host_waits;
  }
  return sum;
}

std::vector<std::string> missing_waits() {
  State& s = state();
  std::lock_guard lock(s.mutex);
  return s.findings;
}

}  // namespace fsdp::testing::device
