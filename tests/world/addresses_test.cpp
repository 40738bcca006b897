// Over which addresses hosts reach each other.
#include "world/addresses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fsdp/error.h"
#include "support/message_of.h"
#include "support/run_ranks.h"

namespace fsdp::world {
namespace {

using ::fsdp::testing::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

uint16_t free_port() { return static_cast<uint16_t>(std::stoi(fsdp::testing::free_port())); }

TEST(Addresses, OfANumberAreThatNumber) {
  EXPECT_THAT(addresses_of("127.0.0.1"), ElementsAre("127.0.0.1"));
  EXPECT_THAT(addresses_of("::1"), ElementsAre("::1"));
  EXPECT_THAT(addresses_of("192.0.2.7"), ElementsAre("192.0.2.7"));
}

TEST(Addresses, OfANameThatNobodyKnowsAreNone) { EXPECT_THAT(addresses_of("no such host"), IsEmpty()); }

TEST(Addresses, AreWrittenWithTheirPorts) {
  EXPECT_EQ(with_port("10.0.0.1", 29500), "10.0.0.1:29500");
  EXPECT_EQ(with_port("fd00::1", 29500), "[fd00::1]:29500");
}

TEST(Addresses, OfTheWayToAnotherIsThisHostsOwn) {
  EXPECT_EQ(own_address_towards({"127.0.0.5"}, 1), "127.0.0.1");
  EXPECT_EQ(own_address_towards({"no address", "127.0.0.5"}, 1), "127.0.0.1");
  EXPECT_EQ(own_address_towards({}, 1), "");
}

TEST(Addresses, AreListenedAtOneByOne) {
  const uint16_t port = free_port();
  const ListeningSocket first = listen_at({"192.0.2.7", "127.0.0.2"}, port);
  EXPECT_EQ(first.address, "127.0.0.2");
  // The port is free at this host's other addresses: nobody listens everywhere.
  const ListeningSocket second = listen_at({"127.0.0.3"}, port);
  for (int socket : {first.socket, second.socket}) close(socket);
}

TEST(Addresses, OfAnotherHostAreAnErrorThatNamesThem) {
  EXPECT_THAT(
      message_of<Error>([] {
        listen_at({"192.0.2.7", "192.0.2.8"}, 29500);
      }),
      HasSubstr("cannot listen on '192.0.2.7, 192.0.2.8', which is not an address of this host. Set MASTER_ADDR"));
  EXPECT_THAT(message_of<Error>([] { listen_at({"no such host"}, 29500); }), HasSubstr("'no such host'"));
}

TEST(Addresses, WhosePortIsTakenAreAnErrorThatSaysSo) {
  const uint16_t port = free_port();
  const ListeningSocket taken = listen_at({"127.0.0.1"}, port);
  ASSERT_EQ(listen(taken.socket, 1), 0);
  EXPECT_THAT(message_of<Error>([&] {
                listen_at({"192.0.2.7", "127.0.0.1"}, port);
              }),
              HasSubstr("Address already in use. Set MASTER_PORT to a free port"));
  close(taken.socket);
}

}  // namespace
}  // namespace fsdp::world
