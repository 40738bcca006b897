// The model finds what is missing: a file or a directory that nobody synced.
#include "crash/disk_model.h"

#include <fcntl.h>
#include <gmock/gmock.h>

#include "support/temporary_folder.h"

namespace crash {
namespace {

using file_faults::Call;
using file_faults::Logged;
using State = DiskModel::State;
using ::testing::Contains;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

class DiskModelTest : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_ / name; }
  void write(const std::string& name, const std::string& bytes, int32_t file) {
    disk_.apply({.call = Call::Open, .file = file, .offset = O_CREAT | O_WRONLY, .path = path(name)});
    disk_.apply({.call = Call::Write, .file = file, .bytes = bytes});
  }
  void sync(int32_t file) { disk_.apply({.call = Call::Sync, .file = file}); }
  void sync_folder() {
    disk_.apply({.call = Call::Open, .file = 100, .offset = O_DIRECTORY, .path = folder_.path().string()});
    sync(100);
  }
  void rename(const std::string& from, const std::string& to, Call call = Call::Rename) {
    disk_.apply({.call = call, .path = path(from), .other = path(to)});
  }

  TemporaryFolder folder_;
  DiskModel disk_{folder_.path()};
};

TEST_F(DiskModelTest, BytesThatWereNotSyncedMayBeAnything) {
  write("a", "text", 1);
  sync_folder();
  EXPECT_THAT(disk_.states(), UnorderedElementsAre(State{{"a", ""}}, State{{"a", std::string(4, '\0')}},
                                                   State{{"a", "te"}}, State{{"a", "text"}}));
  sync(1);
  EXPECT_THAT(disk_.states(), UnorderedElementsAre(State{{"a", "text"}}));
}

TEST_F(DiskModelTest, ANameIsThereWhenItsDirectoryWasSynced) {
  write("a", "text", 1);
  sync(1);
  EXPECT_THAT(disk_.states(), UnorderedElementsAre(State{}, State{{"a", "text"}}));
  sync_folder();
  EXPECT_THAT(disk_.states(), UnorderedElementsAre(State{{"a", "text"}}));
}

TEST_F(DiskModelTest, ARenamedFileIsAtOneOfItsPlaces) {
  folder_.write("old", "1");
  disk_ = DiskModel(folder_.path());
  write("new", "2", 1);
  rename("new", "old");
  EXPECT_THAT(disk_.states(), IsSupersetOf({State{{"old", "1"}}, State{{"old", "2"}}, State{{"old", ""}}}));
  sync(1);
  EXPECT_THAT(disk_.states(), Not(Contains(State{{"old", ""}})));
  sync_folder();
  EXPECT_THAT(disk_.states(), UnorderedElementsAre(State{{"old", "2"}}));
}

TEST_F(DiskModelTest, NamesChangePlacesAtOnce) {
  folder_.write("a", "1");
  folder_.write("b", "2");
  disk_ = DiskModel(folder_.path());
  rename("a", "b", Call::Exchange);
  EXPECT_THAT(disk_.states(), UnorderedElementsAre(State{{"a", "1"}, {"b", "2"}}, State{{"a", "2"}, {"b", "1"}}));
}

TEST_F(DiskModelTest, DirectoriesComeToTheDiskOneWithoutTheOther) {
  disk_.apply({.call = Call::MakeDirectory, .path = path("d")});
  write("d/a", "text", 1);
  rename("d", "e");
  sync(1);
  EXPECT_THAT(disk_.states(), UnorderedElementsAre(State{}, State{{"d/", ""}}, State{{"d/", ""}, {"d/a", "text"}},
                                                   State{{"e/", ""}}, State{{"e/", ""}, {"e/a", "text"}}));
}

TEST_F(DiskModelTest, IsWhatTheProgramSees) {
  disk_.apply({.call = Call::MakeDirectory, .path = path("d")});
  write("d/a", "text", 1);
  write("d/b", "more", 2);
  disk_.apply({.call = Call::Truncate, .file = 2, .offset = 1});
  disk_.apply({.call = Call::Write, .file = 1, .offset = 1, .bytes = "o"});
  disk_.apply({.call = Call::Remove, .path = path("nowhere"), .succeeded = false});
  EXPECT_EQ(disk_.now(), (State{{"d/", ""}, {"d/a", "toxt"}, {"d/b", "m"}}));
  disk_.apply({.call = Call::Remove, .path = path("d/a")});
  disk_.apply({.call = Call::Remove, .path = path("d/b")});
  disk_.apply({.call = Call::RemoveDirectory, .path = path("d")});
  EXPECT_EQ(disk_.now(), State{});
}

}  // namespace
}  // namespace crash
