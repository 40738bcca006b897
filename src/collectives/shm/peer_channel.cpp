#include "collectives/shm/peer_channel.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace fsdp::collectives::shm {

namespace {

// The reader begins with a long message when so many bytes are there.
constexpr size_t kPieceBytes = size_t{64} << 10;

std::shared_ptr<Transfer> take_first(std::vector<std::shared_ptr<Transfer>>& transfers, int64_t tag) {
  const auto found = std::find_if(transfers.begin(), transfers.end(),
                                  [&](const std::shared_ptr<Transfer>& one) { return one->frame.tag == tag; });
  if (found == transfers.end()) return nullptr;
  std::shared_ptr<Transfer> first = std::move(*found);
  transfers.erase(found);
  return first;
}

void check_size(const Frame& frame, uint64_t expected) {
  FSDP_INVARIANT(frame.size == expected, "a message of tag {} has {} bytes, expected {}", frame.tag, frame.size,
                 expected);
}

}  // namespace

std::shared_ptr<Transfer> PeerChannel::send(const Frame& frame, const char* from) {
  ++unsent_;
  sending_.push_back(std::make_shared<Transfer>(frame, from));
  return sending_.back();
}

std::shared_ptr<Transfer> PeerChannel::receive(int tag, char* to, size_t size) {
  if (std::shared_ptr<Transfer> early = take_first(early_, tag)) {
    check_size(early->frame, size);
    early->to = to;
    if (const size_t here = early->done ? size : taken_; here > 0) std::memcpy(to, early->kept.data(), here);
    return early;
  }
  awaited_.push_back(std::make_shared<Transfer>(Frame{.size = size, .tag = tag}, nullptr, to));
  return awaited_.back();
}

bool PeerChannel::advance_both(uint64_t operation) {
  const bool has_written = write();
  return read(operation) || has_written;
}

bool PeerChannel::write() {
  bool has_written = false;
  while (!sending_.empty()) {
    Transfer& first = *sending_.front();
    if (!has_put_frame_) {
      if (out_.room() < sizeof(Frame)) break;
      out_.put(reinterpret_cast<const char*>(&first.frame), sizeof(Frame));
      has_put_frame_ = true;
    }
    const size_t piece = std::min<size_t>(kPieceBytes, first.frame.size - put_);
    const size_t put = out_.put(first.from ? first.from + put_ : nullptr, piece);
    put_ += put;
    if (put_ < first.frame.size) {
      if (put == 0) break;
      has_written |= out_.publish();
      continue;
    }
    first.done = true;
    sending_.pop_front();
    --unsent_;
    ++ended_;
    put_ = 0;
    has_put_frame_ = false;
  }
  return out_.publish() || has_written;
}

bool PeerChannel::read(uint64_t operation) {
  bool has_read = false;
  for (;;) {
    if (!is_in_frame_) {
      if (in_.filled() < sizeof(Frame)) break;
      in_.take(reinterpret_cast<char*>(&frame_), sizeof(Frame));
      is_in_frame_ = true;
    }
    if (frame_.operation > operation) break;
    if (!has_place_) find_place(operation);
    char* const to = into_ ? into_->to : nullptr;
    const size_t taken = in_.take(to ? to + taken_ : nullptr, std::min<size_t>(kPieceBytes, frame_.size - taken_));
    taken_ += taken;
    if (taken_ == frame_.size) {
      end_frame();
    } else if (taken == 0) {
      break;
    } else {
      has_read |= in_.release();
    }
  }
  return in_.release() || has_read;
}

void PeerChannel::find_place(uint64_t operation) {
  has_place_ = true;
  if (frame_.operation < operation) return;
  into_ = take_first(awaited_, frame_.tag);
  if (into_) return check_size(frame_, into_->frame.size);
  into_ = early_.emplace_back(std::make_shared<Transfer>(frame_));
  into_->kept.resize(frame_.size);
  into_->to = into_->kept.data();
}

void PeerChannel::end_frame() {
  if (into_) into_->done = true;
  ++ended_;
  into_.reset();
  is_in_frame_ = has_place_ = false;
  taken_ = 0;
}

}  // namespace fsdp::collectives::shm
