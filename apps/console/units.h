// Numbers as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace trainer {

std::string grouped(int64_t number);                                               // 834,304
std::string counted(int64_t number, const char* one, const char* many = nullptr);  // 1 rank, 2 ranks, 3 batches
std::string short_number(double number);                                           // 912, 14.2k, 3.1M
std::string short_bytes(size_t bytes);                                             // 912 B, 14.2 kB, 212 MB
std::string operation_rate(double rate);     // 912 FLOP/s, 61.2 GFLOP/s: floating-point operations per second
std::string duration(double seconds);        // 0:07, 12:34, 1:02:03; "?" for what is no number
std::string rough_duration(double seconds);  // 40 ms, 2.5 s, 12 min, 3 h 20 min, 5 days, 3 years: for what is estimated
std::string scientific(double number);       // 3.0e-3

}  // namespace trainer
