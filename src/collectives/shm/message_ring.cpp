#include "collectives/shm/message_ring.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace fsdp::collectives::shm {

namespace {

// The reader begins with a long message when so many bytes are there.
constexpr size_t kPieceBytes = size_t{64} << 10;

void check_size(const Frame& frame, uint64_t expected) {
  FSDP_INVARIANT(frame.size == expected, "a message of tag {} has {} bytes, expected {}", frame.tag, frame.size,
                 expected);
}

}  // namespace

void MessageWriter::send(Transfer& transfer, const Frame& frame, const char* from) {
  transfer.frame = frame;
  transfer.from = from;
  sending_.push_back(&transfer);
}

void MessageReader::receive(Transfer& transfer, const Frame& frame, char* to) {
  transfer.frame = frame;
  transfer.to = to;
  std::erase_if(early_, [&](const std::unique_ptr<Early>& one) {
    return one->transfer.done && one->transfer.frame.is_before(frame.operation);
  });
  const auto found = std::find_if(early_.begin(), early_.end(), [&](const std::unique_ptr<Early>& one) {
    return one->transfer.frame.operation == frame.operation && one->transfer.frame.tag == frame.tag;
  });
  if (found == early_.end()) return awaited_.push_back(&transfer);
  check_size((*found)->transfer.frame, frame.size);
  const std::unique_ptr<Early> early = std::move(*found);
  early_.erase(found);
  transfer.done = early->transfer.done;
  const bool is_coming = into_ == &early->transfer;
  if (is_coming) into_ = &transfer;
  const size_t here = transfer.done ? frame.size : is_coming ? taken_ : 0;
  if (here > 0) std::memcpy(to, early->bytes.data(), here);
  if (loans_) loans_->move(early->transfer, transfer);
}

void MessageWriter::give_up(const Transfer& transfer) {
  if (std::erase(lent_, &transfer) > 0) return lender_.withdraw(transfer.frame.loan);
  const auto found = std::ranges::find(sending_, &transfer);
  if (found == sending_.end()) return;
  given_up_.push_back(std::make_unique<Transfer>(transfer.frame));
  *found = given_up_.back().get();
}

void MessageReader::give_up(const Transfer& transfer) {
  given_up_.push_back(std::make_unique<Transfer>(transfer.frame));
  const auto replace = [&](Transfer*& place) {
    if (place == &transfer) place = given_up_.back().get();
  };
  std::for_each(awaited_.begin(), awaited_.end(), replace);
  replace(into_);
  if (loans_) loans_->move(transfer, *given_up_.back());
}

bool MessageWriter::await(Transfer& transfer) {
  transfer.is_awaited = true;
  return transfer.frame.bytes == Frame::Bytes::AreLent && !transfer.done && lender_.await(transfer.frame.loan);
}

// True if the message is lent: its frame is in the ring. One that fits into the ring is copied there faster.
bool MessageWriter::lend(Transfer& transfer) {
  Frame& frame = transfer.frame;
  if (!transfer.may_be_lent || transfer.is_awaited || transfer.from == nullptr) return false;
  if (frame.loan != Frame::kNoLoan || sizeof(Frame) + frame.size <= ring_.room()) return false;
  const std::optional<int> loan = lender_.lend(transfer.from, frame.size);
  if (!loan) return false;
  frame.loan = *loan;
  frame.bytes = Frame::Bytes::AreLent;
  ring_.put(reinterpret_cast<const char*>(&frame), sizeof(Frame));
  lent_.push_back(&transfer);
  return true;
}

void MessageWriter::look_at_loans() {
  std::erase_if(lent_, [&](Transfer* transfer) {
    Frame& frame = transfer->frame;
    if (lender_.is_refused(frame.loan)) {
      frame.bytes = Frame::Bytes::Follow;
      frame.begin = lender_.taken(frame.loan);
      sending_.push_back(transfer);
      return true;
    }
    if (!lender_.is_back(frame.loan)) return false;
    transfer->done = true;
    ++ended_;
    return true;
  });
}

bool MessageWriter::write() {
  look_at_loans();
  bool has_written = false;
  while (!sending_.empty()) {
    Transfer& first = *sending_.front();
    if (!has_put_frame_) {
      if (ring_.room() < sizeof(Frame)) break;
      if (lend(first)) {
        sending_.erase(sending_.begin());
        continue;
      }
      ring_.put(reinterpret_cast<const char*>(&first.frame), sizeof(Frame));
      has_put_frame_ = true;
      put_ = first.frame.begin;
    }
    const size_t piece = std::min<size_t>(kPieceBytes, first.frame.size - put_);
    const size_t put = ring_.put(first.from ? first.from + put_ : nullptr, piece);
    put_ += put;
    if (put_ < first.frame.size) {
      if (put == 0) break;
      has_written |= ring_.publish();
      continue;
    }
    first.done = true;
    sending_.erase(sending_.begin());
    ++ended_;
    put_ = 0;
    has_put_frame_ = false;
  }
  return ring_.publish() || has_written;
}

bool MessageReader::read(uint64_t operation) {
  bool has_read = false;
  for (;;) {
    if (!is_in_frame_) {
      if (ring_.filled() < sizeof(Frame)) break;
      ring_.take(reinterpret_cast<char*>(&frame_), sizeof(Frame));
      is_in_frame_ = true;
    }
    if (frame_.operation > operation) break;
    if (frame_.bytes == Frame::Bytes::AreLent) {
      take_loan();
      continue;
    }
    if (!has_place_) find_place(operation);
    char* const to = into_ ? into_->to : nullptr;
    const size_t taken = ring_.take(to ? to + taken_ : nullptr, std::min<size_t>(kPieceBytes, frame_.size - taken_));
    taken_ += taken;
    if (taken_ == frame_.size) {
      end_frame();
    } else if (taken == 0) {
      break;
    } else {
      has_read |= ring_.release();
    }
  }
  return ring_.release() || has_read;
}

void MessageReader::find_place(uint64_t operation) {
  has_place_ = true;
  taken_ = frame_.begin;
  if (frame_.is_before(operation)) return;
  into_ = frame_.loan != Frame::kNoLoan ? loans_.value().take_refused(frame_.loan) : find_awaited();
  if (!into_) into_ = &add_early().transfer;
  const auto early = std::ranges::find(early_, into_, [](const auto& one) { return &one->transfer; });
  if (early != early_.end()) (*early)->make_room();
}

// Null if none waits for the message.
Transfer* MessageReader::find_awaited() {
  const auto found = std::find_if(awaited_.begin(), awaited_.end(), [&](const Transfer* one) {
    return one->frame.operation == frame_.operation && one->frame.tag == frame_.tag;
  });
  if (found == awaited_.end()) return nullptr;
  Transfer* const transfer = *found;
  awaited_.erase(found);
  check_size(frame_, transfer->frame.size);
  return transfer;
}

MessageReader::Early& MessageReader::add_early() {
  Early& early = *early_.emplace_back(std::make_unique<Early>());
  early.transfer.frame = frame_;
  return early;
}

void MessageReader::take_loan() {
  is_in_frame_ = false;
  if (Transfer* const transfer = find_awaited()) {
    transfer->frame.loan = frame_.loan;
    return loans_.value().add(*transfer);
  }
  loans_.value().keep(add_early().transfer);
}

void MessageReader::end_frame() {
  if (into_) into_->done = true;
  ++ended_;
  into_ = nullptr;
  is_in_frame_ = has_place_ = false;
  taken_ = 0;
}

}  // namespace fsdp::collectives::shm
