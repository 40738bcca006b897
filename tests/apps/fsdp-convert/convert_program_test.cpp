// fsdp-convert as people start it: all mistakes at once, nothing written over, nothing half there.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "apps/command.h"
#include "files/durable_file.h"
#include "formats/pickle_writer.h"
#include "formats/zip_writer.h"
#include "support/temporary_folder.h"

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ConvertProgram : public ::testing::Test {
 protected:
  Ending run(const std::string& arguments) const {
    return run_command(fmt::format("cd '{}' && '{}' {}", folder_.path().string(), FSDP_CONVERT_PROGRAM, arguments));
  }

  // A dict of three floats, whose bytes are those of kFloats.
  static constexpr char kFloats[] = "three floats";
  void write_torch_file(const std::string& name, const std::string& tensor = "w") const {
    namespace formats = fsdp::formats;
    formats::PickleWriter out;
    out.empty_dict();
    out.text(tensor);
    out.global("torch._utils", "_rebuild_tensor_v2");
    out.mark();
    out.mark();
    out.text("storage");
    out.global("torch", "FloatStorage");
    out.text("0");
    out.text("cpu");
    out.number(3);
    out.tuple();
    out.persistent();
    out.number(0);
    out.numbers(std::vector<int64_t>{3});
    out.numbers(std::vector<int64_t>{1});
    out.tuple();
    out.call();
    out.set_item();
    fsdp::files::DurableFile file(folder_ / name);
    formats::ZipWriter zip(file);
    zip.add("x/data.pkl", out.finish());
    zip.add("x/data/0", kFloats);
    zip.finish();
    file.close();
  }

  TemporaryFolder folder_;
};

TEST_F(ConvertProgram, NamesEveryMistakeAtOnce) {
  folder_.write("there.pt", "");
  const Ending ending = run("nowhere there.pt third --dtyp fp32 --dtype int8 --from zip --max-shard-size many");
  EXPECT_EQ(ending.code, 2);
  EXPECT_THAT(ending.output,
              AllOf(HasSubstr("SOURCE 'nowhere' is not there"), HasSubstr("'third' is one word too many"),
                    HasSubstr("'--dtyp' is no option of this program; did you mean --dtype?"),
                    HasSubstr("--dtype is 'int8'"), HasSubstr("--from is 'zip', expected one of fsdp, hf, pt"),
                    HasSubstr("--max-shard-size is 'many'"), HasSubstr("TARGET 'there.pt' is there already"),
                    HasSubstr("--max-shard-size is for --to hf alone"), HasSubstr("Nothing was written")));
  EXPECT_THAT(run("").output, AllOf(HasSubstr("SOURCE is missing"), HasSubstr("TARGET is missing")));
  EXPECT_THAT(run("there.pt new").output,
              AllOf(HasSubstr("in no format that is read here"), HasSubstr("--to is missing")));
  EXPECT_THAT(run("there.pt x.pt --force --to").output, HasSubstr("--to needs a value"));
}

TEST_F(ConvertProgram, ExplainsItself) {
  const Ending help = run("--help");
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.output, AllOf(HasSubstr("Usage: fsdp-convert SOURCE TARGET"), HasSubstr("--max-shard-size BYTES"),
                                 HasSubstr("a distributed checkpoint of PyTorch")));
  EXPECT_EQ(run("-h").output, help.output);
  EXPECT_THAT(run("--version").output, HasSubstr("fsdp-convert "));
}

TEST_F(ConvertProgram, ListsWhatAFileHolds) {
  write_torch_file("x.pt", "w\x1b[2J");
  const Ending list = run("--list x.pt");
  EXPECT_EQ(list.code, 0);
  EXPECT_THAT(list.output, AllOf(HasSubstr("x.pt: a file of torch.save, 1 tensor of 12 B"),
                                 HasSubstr("w\\x1b[2J  float32   [3]  12 B")));
  EXPECT_THAT(list.output, Not(HasSubstr("\x1b")));
  EXPECT_THAT(run("--list x.pt y.pt").output, HasSubstr("--list takes SOURCE alone"));
}

TEST_F(ConvertProgram, ReplacesOnlyWhereItIsTold) {
  write_torch_file("x.pt");
  EXPECT_EQ(run("x.pt y.pt").code, 0);
  const std::string written = read_bytes(folder_ / "y.pt");
  EXPECT_EQ(run("x.pt y.pt --dtype bf16").code, 2);
  EXPECT_EQ(read_bytes(folder_ / "y.pt"), written);
  const Ending forced = run("x.pt y.pt --dtype bf16 --force");
  EXPECT_EQ(forced.code, 0);
  EXPECT_THAT(forced.output,
              HasSubstr("1 tensor of 6 B: x.pt, a file of torch.save, is now y.pt, a file of torch.save."));
  EXPECT_NE(read_bytes(folder_ / "y.pt"), written);
  EXPECT_EQ(run("x.pt folder --to hf").code, 0);
  folder_.write("folder/config.json", "{}");
  const Ending refused = run("x.pt folder --to hf --force");
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.output, HasSubstr("found 'config.json' in it"));
}

TEST_F(ConvertProgram, LeavesNothingHalfThere) {
  write_torch_file("x.pt");
  std::string bytes = read_bytes(folder_ / "x.pt");
  bytes[bytes.find(kFloats)] = 1;
  folder_.write("x.pt", bytes);
  for (const char* target : {"--to hf", "--to dcp", "--to fsdp", "--to archive", "--to pt"}) {
    const Ending ending = run(fmt::format("x.pt new {}", target));
    EXPECT_EQ(ending.code, 1) << target;
    EXPECT_THAT(ending.output, AllOf(HasSubstr("x.pt is damaged"), HasSubstr("checksum"))) << target;
  }
  int files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder_.path())) ++files;
  EXPECT_EQ(files, 1);
}

}  // namespace
