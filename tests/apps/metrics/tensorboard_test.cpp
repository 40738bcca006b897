#include "metrics/tensorboard.h"

#include <fsdp/error.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "apps/command.h"
#include "metrics/checksum.h"
#include "metrics/fields.h"
#include "support/required.h"
#include "support/temporary_folder.h"

namespace trainer {
namespace {

using nlohmann::json;

const TensorBoardFile::Tell kTellNobody = [](const std::string&) {};

// RFC 3720, appendix B.4.
TEST(Checksum, IsThatOfItsStandard) {
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62A8AB43u);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(""), 0u);
}

TEST(TensorBoard, FramesARecordWithItsLength) {
  const std::string record = framed("abc");
  ASSERT_EQ(record.size(), 8u + 4 + 3 + 4);
  EXPECT_EQ(record.substr(0, 8), std::string("\3\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(record.substr(12, 3), "abc");
}

class TensorBoardReader : public testing::Test {
 protected:
  void SetUp() override {
    if (std::string(FSDP_PYTHON).empty() || run_command(FSDP_PYTHON " -c 'import tensorboard'").code != 0) {
      FSDP_SKIP_TEST("the Python package tensorboard is not there: scripts/setup --tests installs it");
    }
  }

  json scalars() const { return read("scalars", folder_ / "board"); }
  // One entry for each run that the plugin finds below a folder.
  json sessions() const { return read("hyperparameters", folder_.path()); }

  static json read(const std::string& what, const std::string& folder) {
    const Ending ending = run_command(FSDP_PYTHON " " FSDP_READ_EVENTS " " + what + " " + folder);
    EXPECT_EQ(ending.code, 0) << ending.output;
    // The last line; those before are what TensorBoard has to say.
    return json::parse(ending.output.substr(ending.output.rfind('\n') + 1), nullptr, /*allow_exceptions=*/false);
  }

  TemporaryFolder folder_;
};

StepRecord record_of(int64_t step) {
  const double x = static_cast<double>(step);
  return {.step = step,
          .loss = 5 / x,
          .grad_norm = 1e30 / x,
          .lr = 1e-4 * x,
          .tokens_per_second = 123456.7,
          .memory_bytes = 7'000'000'000,
          .validation_loss = step % 2 == 0 ? std::optional(4 / x) : std::nullopt,
          .loss_scale = 65536,
          .skipped = step == 3,
          .tokens = 1000 * step,
          .memory = {{"parameters", 100}},
          .learning_rates = {{"matrices", 0.02}}};
}

void expect_value(const json& found, int64_t step, double value) {
  EXPECT_EQ(found[0], step);
  EXPECT_EQ(found[1].get<double>(), static_cast<double>(static_cast<float>(value)));
}

TEST_F(TensorBoardReader, FindsEveryNumberOfEveryStep) {
  {
    TensorBoardFile file(folder_ / "board", 0, {}, kTellNobody);
    for (int64_t step = 1; step <= 200; ++step) file.write(record_of(step));
  }
  const json found = scalars();
  ASSERT_EQ(found["loss/train"].size(), 200u);
  ASSERT_EQ(found["loss/validation"].size(), 100u);
  for (int64_t step = 1; step <= 200; ++step) {
    const auto at = static_cast<size_t>(step - 1);
    const StepRecord record = record_of(step);
    expect_value(found["loss/train"][at], step, record.loss);
    expect_value(found["grad_norm"][at], step, record.grad_norm);
    expect_value(found["memory_bytes"][at], step, 7e9);
    expect_value(found["skipped"][at], step, step == 3 ? 1 : 0);
    expect_value(found["memory/parameters"][at], step, 100);
    expect_value(found["learning_rates/matrices"][at], step, 0.02);
    if (step % 2 == 0) expect_value(found["loss/validation"][at / 2], step, *record.validation_loss);
  }
  const nlohmann::ordered_json first = to_json(record_of(1));
  for (const auto& [name, value] : first.items()) {
    if (value.is_number() && name != "step") {
      EXPECT_TRUE(found.contains(name == "loss" ? "loss/train" : name)) << name;
    }
  }
}

TEST_F(TensorBoardReader, SeesAResumedRunAsOneCurve) {
  {
    TensorBoardFile file(folder_ / "board", 0, {}, kTellNobody);
    for (int64_t step = 1; step <= 8; ++step) file.write(StepRecord{.step = step, .loss = 1});
  }
  TensorBoardFile file(folder_ / "board", 5, {}, kTellNobody);  // steps 6 to 8 came after the checkpoint
  for (int64_t step = 6; step <= 9; ++step) file.write(StepRecord{.step = step, .loss = 2});
  const json loss = scalars()["loss/train"];
  ASSERT_EQ(loss.size(), 9u);
  for (int64_t step = 1; step <= 9; ++step) expect_value(loss[static_cast<size_t>(step - 1)], step, step <= 5 ? 1 : 2);
}

TEST_F(TensorBoardReader, FindsTheHyperparametersOfEachRunWithItsLosses) {
  for (const double lr : {0.5, 0.25}) {
    TensorBoardFile file(folder_ / (lr == 0.5 ? "a" : "b"), 0,
                         {{"lr", lr}, {"optimizer", std::string("muon")}, {"tie_embeddings", true}}, kTellNobody);
    for (int64_t step = 1; step <= 3; ++step) file.write(StepRecord{.step = step, .loss = lr / 2});
    file.write(StepRecord{.step = 4, .loss = lr, .validation_loss = 2 * lr});
    if (lr == 0.5) file.end(4, /*is_finished=*/true);
  }
  const json found = sessions();
  ASSERT_EQ(found.size(), 2u) << found;
  for (const auto& [run, lr] : {std::pair("a", 0.5), std::pair("b", 0.25)}) {
    const json& session = found[run];
    EXPECT_EQ(session["hyperparameters"], json({{"lr", lr}, {"optimizer", "muon"}, {"tie_embeddings", true}}));
    EXPECT_EQ(session["metrics"]["loss/train"], lr);
    EXPECT_EQ(session["metrics"]["loss/validation"], 2 * lr);
    EXPECT_EQ(session["status"], lr == 0.5 ? "STATUS_SUCCESS" : "STATUS_UNKNOWN");
  }
}

TEST_F(TensorBoardReader, SaysHowARunEndedUntilItGoesOn) {
  const auto status = [&] { return sessions()["run"]["status"].get<std::string>(); };
  for (int64_t steps_done : {0, 4}) {
    TensorBoardFile file(folder_ / "run", steps_done, {{"lr", 0.5}}, kTellNobody);
    file.write(StepRecord{.step = steps_done + 1, .loss = 1});
    EXPECT_EQ(status(), "STATUS_UNKNOWN");
    file.end(steps_done + 1, /*is_finished=*/steps_done > 0);
    EXPECT_EQ(status(), steps_done > 0 ? "STATUS_SUCCESS" : "STATUS_FAILURE");
  }
}

TEST(TensorBoard, LeavesWhatOthersHaveInItsFolder) {
  TemporaryFolder folder;
  const std::string name = "events.out.tfevents.1.host";
  const std::string tag = "_hparams_/session_end_info";
  for (const std::string& bytes : {std::string(), tag, std::string(100, '\xff') + tag, framed("an event"),
                                   framed(tag) + "half a record", framed(tag) + framed("an event")}) {
    folder.write(name, bytes);
    TensorBoardFile(folder.path(), 0, {}, kTellNobody).end(1, /*is_finished=*/false);
    EXPECT_EQ(read_bytes(folder / name), bytes);
  }
  folder.write(name, framed("an event") + framed(tag));
  const TensorBoardFile other(folder.path(), 0, {}, kTellNobody);
  EXPECT_EQ(read_bytes(folder / name), framed("an event"));
}

TEST(TensorBoard, ThatCannotBeWrittenIsAnError) {
  TemporaryFolder folder;
  EXPECT_THROW(TensorBoardFile(folder.write("file", "") + "/board", 0, {}, kTellNobody), fsdp::Error);
}

}  // namespace
}  // namespace trainer
