// A device of the tests' own, in the place of CUDA in a LibTorch for CPUs: what tests see of it.
//
// A process that links or preloads fsdp_test_device has `torch::kCUDA` devices. Their kernels are the CPU's and run at
// once, on the calling thread, so results have the CPU's bits. Everything else is as on a GPU:
// - The host cannot read the device's memory: it faults, and the report names the operator, or the line (faults.h).
// - There are streams, events, pinned memory, and threads of autograd. Each kernel is noted with the stream that it
//   would run on and the bytes that it reads and writes. Two accesses to the same bytes, of which one is a write, that
//   no wait orders are a missing wait, although they ran one after the other here (accesses.h).
// - Memory that is freed goes to the next tensor of the same stream, as with CUDA's allocator, and begins as NaN.
//
// Variables of the environment:
//   FSDP_TEST_DEVICES        how many there are (1); CUDA_VISIBLE_DEVICES hides some, as for CUDA
//   FSDP_TEST_DEVICE_MEMORY  bytes of each (8 GiB)
//   FSDP_TEST_DEVICE_CHECK   if set, the process looks for missing waits from its start, prints them at its end and
//   then
//                            exits with 97: for programs that have the device preloaded
#pragma once

#include <c10/core/Stream.h>

#include <cstdint>
#include <string>
#include <vector>

namespace fsdp::testing::device {

struct Range {
  uintptr_t begin = 0, end = 0;
};

// In the order of the calls of the host.
struct Event {
  enum class Kind {
    Launch,      // a kernel or a copy, queued on `stream`
    StreamWait,  // `stream` waits for `other`, by an event
    HostWait,    // the host waits for `stream`: its end, an event of it, a value, a copy that is not asynchronous
  };
  Kind kind = Kind::Launch;
  std::string what;    // the operator
  std::string stream;  // "cuda:0 default", "cuda:0 stream 3" or the name that the stream was given
  std::string other;
  std::vector<Range> reads, writes;  // of memory of the device, or pinned
};

struct Counts {
  int64_t launches = 0;
  int64_t stream_waits = 0;
  int64_t host_waits = 0;
};

// Forgets what was noted, and notes from now on. Until the first call nothing is noted.
void start_log();
// Notes nothing any more. What was noted stays.
void stop_log();
std::vector<Event> log();
Counts counts();                           // since start_log
Counts counts(const std::string& stream);  // of one stream
// Pairs of accesses since start_log that nothing orders: both operators, their streams, where they were called from.
std::vector<std::string> missing_waits();

// From now on the search takes these waits for left out: those of streams whose name begins with `waiting` for streams
// whose name begins with `other`. The host's name is "host". For tests that the search finds such a fault.
void leave_out_waits(const std::string& waiting, const std::string& other);
void leave_out_no_waits();

// A name for logs and reports, as "gather".
void name_stream(const c10::Stream& stream, const std::string& name);

// Bytes of live tensors on the current device, now and at most since the last reset.
int64_t allocated_bytes();
int64_t peak_bytes();
void reset_peak_bytes();

// The place where the host can read and write the bytes at `pointer` of the device, whatever is in flight.
void* host_view(const void* pointer);

}  // namespace fsdp::testing::device
