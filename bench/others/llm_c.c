// Training steps of llm.c's train_gpt2.c, which is compiled into this program from a checkout of
// https://github.com/karpathy/llm.c (none of it lies here):
//
//   cc -Ofast -march=native -fopenmp -DOMP -I LLM_C llm_c.c -lm      (the flags of its Makefile)
//   ./a.out MODEL.bin TOKENS.bin SEQUENCES CONTEXT STEPS LEARNING_RATE
//
// Prints "step", the seconds and the loss of each step. The step is that of its own main, on the next batch.
#define TESTING
#include "train_gpt2.c"

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

int main(int count, char** words) {
  if (count != 7) {
    fprintf(stderr, "usage: %s MODEL.bin TOKENS.bin SEQUENCES CONTEXT STEPS LEARNING_RATE\n", words[0]);
    return 2;
  }
  const int sequences = atoi(words[3]), context = atoi(words[4]), steps = atoi(words[5]);
  const float learning_rate = (float)atof(words[6]);
  GPT2 model;
  gpt2_build_from_checkpoint(&model, words[1]);
  DataLoader loader;
  dataloader_init(&loader, words[2], sequences, context, 0, 1, 0);
  for (int step = 1; step <= steps; ++step) {
    const double begin = now();
    dataloader_next_batch(&loader);
    gpt2_forward(&model, loader.inputs, loader.targets, sequences, context);
    gpt2_zero_grad(&model);
    gpt2_backward(&model);
    gpt2_update(&model, learning_rate, 0.9f, 0.95f, 1e-8f, 0.1f, step);
    printf("step %.9f %.9f\n", now() - begin, model.mean_loss);
    fflush(stdout);
  }
  dataloader_free(&loader);
  gpt2_free(&model);
  return 0;
}
