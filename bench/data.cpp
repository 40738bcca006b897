// How fast data comes: batches of random windows from mapped token files, which training reads, and the encoding of a
// text by each tokenizer, which `fsdp-train prepare` does. One thread. `tokens` and `bytes` are per second.
//
//   build/release/bench/bench_data
#include <benchmark/benchmark.h>
#include <torch/torch.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "data/batch.h"
#include "data/data_order.h"
#include "data/encode.h"
#include "data/token_file.h"
#include "data/token_writer.h"
#include "tokenizers/sentencepiece.h"

namespace {

namespace fs = std::filesystem;

constexpr int64_t kTokens = 100'000'000;
constexpr int64_t kTextBytes = 8'000'000;
constexpr int64_t kVocabulary = 4096;

// Words drawn from a few thousand, the first ones more often, as in a language.
std::string made_up_text() {
  std::string text;
  uint64_t state = 1;
  auto draw = [&] { return (state = state * 6364136223846793005u + 1442695040888963407u) >> 33; };
  while (static_cast<int64_t>(text.size()) < kTextBytes) {
    const uint64_t word = draw() % (1 + draw() % 5000);
    for (uint64_t letters = word + 26; letters > 0; letters /= 26) text += static_cast<char>('a' + letters % 26);
    text += draw() % 12 == 0 ? '\n' : ' ';
  }
  return text;
}

class Files {
 public:
  Files() : folder_(fs::temp_directory_path() / ("bench-data-" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
    data::TokenWriter writer(tokens(), data::TokenKind::kNanoGpt);
    std::vector<int32_t> some(1'000'000);
    for (size_t i = 0; i < some.size(); ++i) some[i] = static_cast<int32_t>(i * 7919 % 50257);
    for (int64_t i = 0; i < kTokens; i += static_cast<int64_t>(some.size())) writer.append(some);
    writer.commit();
    std::ofstream(text()) << made_up_text();
  }
  ~Files() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;

  fs::path tokens() const { return folder_ / "train.bin"; }
  fs::path text() const { return folder_ / "text"; }
  fs::path encoded() const { return folder_ / "encoded.bin"; }

 private:
  fs::path folder_;
};

// The check of the vocabulary is in it where the file's kind leaves room for more.
void read_batches(benchmark::State& state, const Files& files) {
  const int64_t context = state.range(0), batch = state.range(1);
  const std::vector<fs::path> several(static_cast<size_t>(state.range(2)), files.tokens());
  const data::Tokens tokens = data::open_token_files(several);
  const data::DataOrder order(tokens->size(), context, /*seed=*/1);
  int64_t step = 0;
  for (auto _ : state) {
    const auto starts = order.window_starts({.batch = batch}, step++, 0, 0);
    benchmark::DoNotOptimize(data::make_batch(*tokens, starts, context, /*vocabulary=*/50257));
  }
  const auto read = static_cast<double>(state.iterations() * context * batch);
  state.counters["tokens"] = benchmark::Counter(read, benchmark::Counter::kIsRate);
}

void encode_text(benchmark::State& state, const Files& files, const tokenizers::Tokenizer& tokenizer) {
  const data::TextFiles text(files.text());
  double tokens = 0;
  for (auto _ : state) {
    data::TokenWriter writer(files.encoded(), data::TokenKind::kNanoGpt);
    data::Utf8Check check;
    data::encode(data::all_of(text), tokenizer, /*threads=*/1, writer, check, {});
    writer.commit();
    tokens += static_cast<double>(writer.size());
  }
  state.counters["tokens"] = benchmark::Counter(tokens, benchmark::Counter::kIsRate);
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * text.size());
}

tokenizers::NextSentence lines_of(std::string_view text) {
  return [text]() mutable -> std::optional<std::string_view> {
    if (text.empty()) return std::nullopt;
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    return line;
  };
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  torch::set_num_threads(1);
  const Files files;
  benchmark::RegisterBenchmark("batches", [&](benchmark::State& state) { read_batches(state, files); })
      ->ArgNames({"context", "batch", "files"})
      ->Args({64, 16, 1})
      ->Args({64, 16, 8})
      ->Args({256, 16, 1})
      ->Args({1024, 8, 1})
      ->Args({4096, 4, 1})
      ->Unit(benchmark::kMicrosecond);
  const auto bytes = tokenizers::make_tokenizer("bytes");
  benchmark::RegisterBenchmark("encode/bytes", [&](benchmark::State& state) {
    encode_text(state, files, *bytes);
  })->Unit(benchmark::kMillisecond);
  std::shared_ptr<const tokenizers::Tokenizer> trained;
  if (tokenizers::has_sentencepiece()) {
    const std::string sample = made_up_text().substr(0, 2'000'000);
    trained = tokenizers::make_sentencepiece(tokenizers::train_sentencepiece(lines_of(sample), kVocabulary), "trained");
    benchmark::RegisterBenchmark("encode/sentencepiece", [&](benchmark::State& state) {
      encode_text(state, files, *trained);
    })->Unit(benchmark::kMillisecond);
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
