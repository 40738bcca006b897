// Messages whose bytes are lent, with threads as ranks and random delays. Built with the thread sanitizer.
#include "collectives/shm/loans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "collectives/shm/loan_reader.h"
#include "collectives/shm/thread_ranks.h"
#include "collectives/shm/transport.h"
#include "support/message_of.h"

namespace fsdp::collectives::shm {
namespace {

using ::fsdp::testing::message_of;
using ::testing::HasSubstr;
using Outcome = ProcessMemory::Outcome;

constexpr size_t kLent = (size_t{9} << 20) + 3;  // several pieces
constexpr size_t kUnlent = 100;                  // is not lent

// Runs `body` as each of two ranks that lend.
void run_lenders(const std::function<void(Transport& transport)>& body,
                 std::chrono::milliseconds timeout = std::chrono::hours(1)) {
  ThreadRanks threads(2, timeout);
  std::vector<char*> memory;
  std::vector<std::shared_ptr<ProcessWord>> words;
  std::vector<ProcessMemory> processes;
  for (int rank = 0; rank < 2; ++rank) {
    OwnMemory& own = threads.memory(rank);
    memory.push_back(own.at(own.allocate(SharedMemoryTransport::bytes_for(2))));
    SharedMemoryTransport::prepare(memory.back(), 2);
    words.push_back(std::make_shared<ProcessWord>());
    processes.emplace_back(words.back()->address());
  }
  threads.run([&](Ranks& own) {
    SharedMemoryTransport transport(own, memory, {words[own.rank()], processes});
    body(transport);
  });
}

std::string bytes_of(int number, size_t size) {
  std::string text(size, '\0');
  for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 7 + i / 251 + 31 * number);
  return text;
}

std::unique_ptr<Message> send(Transport& transport, const std::string& text, int tag) {
  return transport.send(text.data(), text.size(), 1 - transport.rank(), kTensorTags + tag);
}

std::unique_ptr<Message> receive(Transport& transport, std::string& text, int tag) {
  return transport.receive(text.data(), text.size(), 1 - transport.rank(), kTensorTags + tag);
}

// Rank 0 tells rank 1 that it has come here, by a message behind all that it has sent.
void pass_word(Transport& transport) {
  std::string word = "go";
  transport.rank() == 0 ? send(transport, word, 1000)->wait() : receive(transport, word, 1000)->wait();
}

TEST(ShmLoan, BringsMessagesOfEveryLengthInBothDirections) {
  run_lenders([](Transport& transport) {
    std::mt19937 random(transport.rank());
    const int peer = 1 - transport.rank();
    for (const size_t size : {kLent, size_t{1}, size_t{64} << 10, size_t{256} << 10, (size_t{256} << 10) + 1,
                              size_t{512} << 10, size_t{4} << 20, (size_t{8} << 20) + 1}) {
      const std::string own = bytes_of(transport.rank(), size);
      std::string theirs(size, '?');
      const auto sent = send(transport, own, 5);
      delay(random);
      const auto received = receive(transport, theirs, 5);
      delay(random);
      if (random() % 2 == 0) sent->wait();
      received->wait();
      sent->wait();
      ASSERT_EQ(theirs, bytes_of(peer, size)) << size;
    }
  });
}

TEST(ShmLoan, KeepsTheOrderOfItsTag) {
  run_lenders([](Transport& transport) {
    const std::vector<std::pair<int, size_t>> sent{{1, kLent}, {2, kUnlent}, {1, kUnlent}, {3, kLent}, {3, kLent}};
    std::vector<std::string> texts;
    for (const auto& [tag, size] : sent) texts.push_back(bytes_of(static_cast<int>(texts.size()), size));
    Messages messages;
    if (transport.rank() == 0) {
      for (size_t i = 0; i < sent.size(); ++i) messages.push_back(send(transport, texts[i], sent[i].first));
      for (const auto& message : messages) message->wait();
      return;
    }
    for (const size_t next : {3, 1, 0, 2, 4}) {
      std::string text(sent[next].second, '?');
      receive(transport, text, sent[next].first)->wait();
      EXPECT_EQ(text, texts[next]) << next;
    }
  });
}

TEST(ShmLoan, OfWhichThereAreMoreThanPlaces) {
  run_lenders([](Transport& transport) {
    constexpr int kCount = kMostLoans + 6;
    constexpr size_t kSize = size_t{600} << 10;
    std::vector<std::string> texts;
    for (int i = 0; i < kCount; ++i) texts.push_back(bytes_of(i, kSize));
    Messages messages;
    if (transport.rank() == 0) {
      for (int i = 0; i < kCount; ++i) messages.push_back(send(transport, texts[i], i));
      for (const auto& message : messages) message->wait();
      return;
    }
    for (int i = kCount; i-- > 0;) {
      std::string text(kSize, '?');
      receive(transport, text, i)->wait();
      EXPECT_TRUE(text == texts[i]) << i;
    }
  });
}

// Rank 0's thread does nothing for the message once it is lent.
TEST(ShmLoan, MovesWithoutTheSendersThread) {
  std::atomic<bool> received = false;
  run_lenders([&](Transport& transport) {
    const std::string text = bytes_of(0, kLent);
    if (transport.rank() == 0) {
      const auto message = send(transport, text, 0);
      while (!received) std::this_thread::yield();
      EXPECT_TRUE(message->is_over());
    } else {
      std::string theirs(kLent, '?');
      receive(transport, theirs, 0)->wait();
      received = true;
      EXPECT_EQ(theirs, text);
    }
  });
}

// Rank 1 has seen the frame, but copies nothing, so rank 0 may still change the bytes.
TEST(ShmLoan, ThatComesEarlyIsReadWhenItIsReceived) {
  std::atomic<bool> seen = false, changed = false;
  run_lenders([&](Transport& transport) {
    if (transport.rank() == 0) {
      std::string text = bytes_of(0, kLent);
      const auto message = send(transport, text, 0);
      pass_word(transport);
      while (!seen) std::this_thread::yield();
      EXPECT_FALSE(message->is_over());
      bytes_of(7, kLent).copy(text.data(), kLent);
      changed = true;
      message->wait();
    } else {
      pass_word(transport);
      seen = true;
      while (!changed) std::this_thread::yield();
      std::string theirs(kLent, '?');
      receive(transport, theirs, 0)->wait();
      EXPECT_EQ(theirs, bytes_of(7, kLent));
    }
  });
}

// Each waits for its send before it receives.
TEST(ShmLoan, IsTakenIntoMemoryWhereItsSenderWaits) {
  run_lenders([](Transport& transport) {
    const std::string own = bytes_of(transport.rank(), kLent);
    std::string theirs(kLent, '?');
    send(transport, own, 0)->wait();
    receive(transport, theirs, 0)->wait();
    EXPECT_EQ(theirs, bytes_of(1 - transport.rank(), kLent));
  });
}

TEST(ShmLoan, IsTakenIntoMemoryWhereItsSenderAsksAgainAndAgain) {
  run_lenders([](Transport& transport) {
    const std::string text = bytes_of(0, kLent);
    if (transport.rank() == 0) {
      const auto message = send(transport, text, 0);
      while (!message->is_over()) std::this_thread::yield();
      pass_word(transport);
    } else {
      pass_word(transport);
      std::string theirs(kLent, '?');
      receive(transport, theirs, 0)->wait();
      EXPECT_EQ(theirs, text);
    }
  });
}

TEST(ShmLoan, OfAnotherLengthThanTheReceiversIsAnError) {
  run_lenders([](Transport& transport) {
    const std::string text = bytes_of(0, kLent);
    if (transport.rank() == 0) {
      EXPECT_THAT(message_of<TransportFailure>([&] { send(transport, text, 0)->wait(); }), HasSubstr("rank 1"));
      return;
    }
    std::string theirs(kLent + 1, '?');
    EXPECT_THAT(message_of<std::logic_error>([&] { receive(transport, theirs, 0)->wait(); }),
                HasSubstr(std::to_string(kLent) + " bytes, expected " + std::to_string(kLent + 1)));
  });
}

// Rank 0 uses the memory for something else at once.
TEST(ShmLoan, ThatIsGivenUpBringsNoMessage) {
  std::atomic<bool> over = false;
  run_lenders(
      [&](Transport& transport) {
        std::string text = bytes_of(0, kLent);
        if (transport.rank() == 0) {
          send(transport, text, 0).reset();
          text.assign(kLent, '!');
          pass_word(transport);
          const auto next = send(transport, text, 1);
          while (!over) next->is_over();
        } else {
          pass_word(transport);
          std::string theirs(kLent, '?'), other(kLent, '?');
          const auto message = receive(transport, theirs, 0);
          EXPECT_THAT(message_of<TransportFailure>([&] { message->wait(); }),
                      HasSubstr("rank 0 did not answer within 500 ms"));
          receive(transport, other, 1)->wait();
          EXPECT_EQ(other, std::string(kLent, '!'));
          over = true;
        }
      },
      std::chrono::milliseconds(500));
}

TEST(ShmLoan, WhoseReceiveIsGivenUpIsOver) {
  run_lenders([](Transport& transport) {
    const std::string text = bytes_of(0, kLent);
    if (transport.rank() == 0) {
      const auto message = send(transport, text, 0), early = send(transport, text, 1);
      pass_word(transport);
      message->wait();
      early->wait();
    } else {
      std::string first(kLent, '?'), second(kLent, '?');
      receive(transport, first, 0).reset();
      pass_word(transport);
      receive(transport, second, 1).reset();
      Messages none;
      transport.begin_operation("enters a barrier", 0);
      EXPECT_THROW(transport.wait_all(none), TransportFailure);  // rank 0 has left
      EXPECT_EQ(first, std::string(kLent, '?'));
      EXPECT_EQ(second, std::string(kLent, '?'));
    }
  });
}

// Memory that no process can read, as that of some devices.
class Unreadable {
 public:
  explicit Unreadable(size_t bytes)
      : bytes_(bytes), begin_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  ~Unreadable() { munmap(begin_, bytes_); }
  Unreadable(const Unreadable&) = delete;
  Unreadable& operator=(const Unreadable&) = delete;

  char* begin() const { return static_cast<char*>(begin_); }
  void set(bool readable) { mprotect(begin_, bytes_, readable ? PROT_READ | PROT_WRITE : PROT_NONE); }

 private:
  size_t bytes_;
  void* begin_;
};

TEST(ShmLoan, ThatCannotBeReadComesThroughTheRing) {
  constexpr size_t kSize = size_t{1} << 20;
  std::atomic<bool> tried = false;
  run_lenders([&](Transport& transport) {
    const std::string text = bytes_of(0, kSize);
    if (transport.rank() == 0) {
      Unreadable memory(kSize);
      text.copy(memory.begin(), kSize);
      memory.set(false);
      const auto message = transport.send(memory.begin(), kSize, 1, kTensorTags);
      while (!tried) std::this_thread::yield();
      memory.set(true);
      message->wait();
    } else {
      std::string theirs(kSize, '?');
      const auto message = receive(transport, theirs, 0);
      std::mt19937 random;
      while (!tried) {
        EXPECT_FALSE(message->is_over());
        tried = random() % 100 == 0;
      }
      message->wait();
      EXPECT_EQ(theirs, text);
    }
  });
}

// A sender's places, and its peer.
struct OneLoan {
  OneLoan() { prepare_loans(memory.data()); }

  alignas(Loan) std::array<char, bytes_of_loans()> memory;
  ProcessWord word;
  Lender lender{memory.data(), 1};
  LoanReader reader{Borrower(memory.data(), ProcessMemory(word.address()))};
};

TEST(ShmLoan, ThatIsWithdrawnWhileItIsReadBringsNoMessage) {
  OneLoan one;
  const std::string text = bytes_of(0, kLent);
  std::string theirs(kLent, '?');
  Transfer transfer{.frame = {.size = kLent}, .to = theirs.data()};
  transfer.frame.loan = one.lender.lend(text.data(), kLent).value();
  one.reader.add(transfer);
  EXPECT_TRUE(one.reader.advance());
  EXPECT_NE(theirs[0], '?');  // a piece has come
  one.lender.withdraw(transfer.frame.loan);
  while (one.reader.advance()) {
  }
  EXPECT_FALSE(transfer.done);
  EXPECT_TRUE(one.lender.is_back(transfer.frame.loan));  // the place can be used again
}

// The ring brings the rest, which both ranks copy at once.
TEST(ShmLoan, WhoseSenderBeginsToWaitIsRefusedFromThereOn) {
  OneLoan one;
  const std::string text = bytes_of(0, kLent);
  std::string theirs(kLent, '?');
  Transfer transfer{.frame = {.size = kLent}, .to = theirs.data()};
  const int loan = transfer.frame.loan = one.lender.lend(text.data(), kLent).value();
  one.reader.add(transfer);
  EXPECT_TRUE(one.reader.advance());
  EXPECT_TRUE(one.lender.await(loan));
  EXPECT_TRUE(one.reader.advance());
  ASSERT_TRUE(one.lender.is_refused(loan));
  const size_t taken = one.lender.taken(loan);
  EXPECT_GT(taken, 0);
  EXPECT_LT(taken, kLent);
  EXPECT_EQ(theirs, text.substr(0, taken) + std::string(kLent - taken, '?'));
  EXPECT_EQ(one.reader.take_refused(loan), &transfer);
  EXPECT_TRUE(one.lender.is_back(loan));
}

TEST(ShmLoan, IsReadOnceAndThenFree) {
  OneLoan one;
  const std::string text = bytes_of(0, kLent);
  std::string theirs(kLent, '?');
  Transfer transfer{.frame = {.size = kLent}, .to = theirs.data()};
  transfer.frame.loan = one.lender.lend(text.data(), kLent).value();
  one.reader.add(transfer);
  EXPECT_FALSE(one.lender.is_back(transfer.frame.loan));
  while (one.reader.advance()) {
  }
  EXPECT_TRUE(transfer.done && one.lender.is_back(transfer.frame.loan));
  EXPECT_EQ(theirs, text);
}

TEST(ShmLoan, OfAnotherProcessIsNotRead) {
  OneLoan one;
  ProcessAddress other = one.word.address();
  ++other.word;  // as if the number of the process were used again
  one.reader = LoanReader(Borrower(one.memory.data(), ProcessMemory(other)));
  const std::string text = bytes_of(0, kLent);
  std::string theirs(kLent, '?');
  Transfer transfer{.frame = {.size = kLent}, .to = theirs.data()};
  transfer.frame.loan = one.lender.lend(text.data(), kLent).value();
  one.reader.add(transfer);
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(one.reader.advance());
  EXPECT_FALSE(transfer.done || one.lender.is_back(transfer.frame.loan));
}

TEST(ShmProcessMemory, IsReadAsFarAsTheSystemAllows) {
  const ProcessWord word;
  const ProcessMemory memory(word.address());
  EXPECT_TRUE(memory.is_readable());
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  Unreadable two(2 * page);
  std::fill_n(two.begin(), 2 * page, 'a');
  mprotect(two.begin() + page, page, PROT_NONE);
  std::string read(2 * page, '?');
  const auto at = [&](size_t offset) { return reinterpret_cast<uint64_t>(two.begin() + offset); };
  const auto partly = memory.read(read.data(), at(0), 2 * page);
  EXPECT_EQ(partly.outcome, Outcome::Read);
  EXPECT_EQ(partly.bytes, page);
  EXPECT_EQ(read, std::string(page, 'a') + std::string(page, '?'));
  EXPECT_EQ(memory.read(read.data(), at(page), page).outcome, Outcome::Refused);
}

TEST(ShmProcessMemory, OfAProcessThatIsGoneIsFoundOut) {
  const ProcessWord word;  // the child has the same
  const pid_t child = fork();
  if (child == 0) {
    while (true) pause();
  }
  ProcessAddress address = word.address();
  address.process = child;
  const ProcessMemory memory(address);
  EXPECT_TRUE(memory.is_readable());
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(memory.read(nullptr, 0, 0).outcome, Outcome::Gone);
}

}  // namespace
}  // namespace fsdp::collectives::shm
