// Which stream reads and writes which bytes, and whether waits order it: the log, the counts and the search for missing
// waits.
//
// Each stream counts its kernels. A vector clock of a stream says how many kernels of each other stream come before its
// next one: a wait takes over the clock that the event was recorded with. The host has a clock of its own, which
// its waits extend and each kernel takes over, as it is queued after what the host has waited for. All threads of the
// host have one clock together: how they wait for each other cannot be seen from here. (Lamport 1978; Mattern 1989. Of
// each byte the last write and the reads since are kept, as in FastTrack, Flanagan and Freund 2009.)
//
// Safe for concurrent use.
#pragma once

#include <c10/core/Stream.h>

#include <string>
#include <vector>

#include "device/device.h"

namespace fsdp::testing::device {

using Clock = std::vector<uint64_t>;  // kernels, by the numbers that streams have in the log

// `what` lives as long as the process.
void note_launch(const c10::Stream& stream, const char* what, std::vector<Range> reads, std::vector<Range> writes);
// What is queued on the stream up to now.
Clock clock_of(const c10::Stream& stream);
void note_stream_wait(const c10::Stream& stream, const c10::Stream& other, const Clock& clock);
void note_host_wait(const char* what, const c10::Stream& stream, const Clock& clock);
void note_host_wait(const char* what, const c10::Stream& stream);  // for all that is queued on it
void note_host_wait_for_device(c10::DeviceIndex device);
// The host knows that this is over, but has not waited: an event says so when it is asked.
void note_host_knows(const Clock& clock);
bool host_has_waited_for(const Clock& clock);

// The allocator hands the bytes out again, and waits for the streams that it was told about before it does.
void forget_accesses(const Range& range, const std::vector<c10::Stream>& streams);
void forget_all_accesses(const Range& range);

// The host touches pinned bytes that a copy under way reads or writes. For the handler of the fault.
void note_host_access(const void* pointer, const char* copy, const std::string& stream);

std::string name_of(const c10::Stream& stream);

}  // namespace fsdp::testing::device
