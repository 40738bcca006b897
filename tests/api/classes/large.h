// Classes that tools/check_classes.py has to count. Nothing includes this.
#pragma once

#include <map>

// 41: 30 values, 10 functions and a map.
class TooLarge {
 public:
  TooLarge() : values_{{1, 2}} { value1 = 1; }
  int first() const { return value1; }
  void function0(int a, int b);
  void function1(int a, int b);
  void function2(int a, int b);
  void function3(int a, int b);
  void function4(int a, int b);
  void function5(int a, int b);
  void function6(int a, int b);
  void function7(int a, int b);
  int value1, value2, value3, value4, value5, value6, value7, value8, value9, value10;
  int value11, value12, value13, value14, value15, value16, value17, value18, value19, value20;
  int value21, value22, value23, value24, value25, value26, value27, value28, value29, value30;

 private:
  std::map<int, int> values_ = {{1, 2}, {3, 4}};
};

// 40: the types within it, the friend and the alias are none of its own.
class LargeEnough {
 public:
  struct Inner {
    int a, b, c;
  };
  enum class Kind { One, Two };
  using Values = std::map<int, int>;
  friend class TooLarge;
  void function0(int a, int b) { value1 = a, value2 = b; }
  void function1(int a, int b) { value1 = a, value2 = b; }
  void function2(int a, int b) { value1 = a, value2 = b; }
  void function3(int a, int b) { value1 = a, value2 = b; }
  void function4(int a, int b) { value1 = a, value2 = b; }
  void function5(int a, int b) { value1 = a, value2 = b; }
  void function6(int a, int b) { value1 = a, value2 = b; }
  void function7(int a, int b) { value1 = a, value2 = b; }
  void function8(int a, int b) { value1 = a, value2 = b; }
  void function9(int a, int b) { value1 = a, value2 = b; }
  int value1, value2, value3, value4, value5, value6, value7, value8, value9, value10;
  int value11, value12, value13, value14, value15, value16, value17, value18, value19, value20;
  int value21, value22, value23, value24, value25, value26, value27, value28, value29, value30;
};
