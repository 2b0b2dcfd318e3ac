#include "conditions.h"

using namespace rrdma;
using comm::Task;

namespace {
Text text_of(int value) { return Text("too long for the inside of a string: " + std::to_string(value)); }
}  // namespace

Task<comm::Result<int>> Ask::is(const Text& text) const {
  (co_await context_->yield()).value_or_throw();
  const Text wanted = text_of(wanted_);
  if (text.get() != wanted.get()) co_return comm::Error(comm::Code::kClosed, comm::During::kRead);
  co_return wanted_;
}

Task<bool> Ask::says(int value) const {
  (co_await context_->yield()).value_or_throw();
  const bool right = value == wanted_;
  co_return right;
}

Task<std::vector<int>> Ask::all() const {
  (co_await context_->yield()).value_or_throw();
  std::vector<int> numbers{wanted_, wanted_ + 1, wanted_ + 2};
  co_return numbers;
}

// None has a variable in its outermost block, unless the form itself declares one.
namespace {

Task<int> if_plain(const Ask& ask, int value) {
  if (co_await ask.says(value)) co_return 1;
  co_return 2;
}
Task<int> if_not(const Ask& ask, int value) {
  if (!co_await ask.says(value)) co_return 2;
  co_return 1;
}
Task<int> if_else(const Ask& ask, int value) {
  if (co_await ask.says(value))
    co_return 1;
  else
    co_return 2;
}
Task<int> if_result(const Ask& ask, int value) {
  if (co_await ask.is(text_of(value))) co_return 1;
  co_return 2;
}
Task<int> if_method(const Ask& ask, int value) {
  if (!(co_await ask.is(text_of(value))).ok()) co_return 2;
  co_return 1;
}
Task<int> if_compare(const Ask& ask, int value) {
  if ((co_await ask.all()).size() == 3) co_return value;
  co_return 2;
}
Task<int> if_operation(const Ask& ask, int value) {
  if (!co_await ask.context().yield()) co_return 2;
  co_return value;
}
Task<int> if_initialiser(const Ask& ask, int value) {
  if (auto found = co_await ask.is(text_of(value)); found) co_return *found;
  co_return 2;
}
Task<int> if_declaration(const Ask& ask, int value) {
  if (auto found = co_await ask.is(text_of(value))) co_return *found;
  co_return 2;
}
Task<int> if_in_block(const Ask& ask, int value) {
  {
    if (co_await ask.is(text_of(value))) co_return 1;
  }
  co_return 2;
}
Task<int> if_in_try(const Ask& ask, int value) {
  try {
    if ((co_await ask.is(text_of(value + 1))).value_or_throw() == 1) co_return 2;
  } catch (const comm::Failure&) {
    value = 7;
  }
  co_return value;
}
Task<int> if_after_statement(const Ask& ask, int value) {
  (co_await ask.is(text_of(value))).value_or_throw();
  if (co_await ask.says(value)) co_return 1;
  co_return 2;
}
Task<int> if_nine_deep(const Ask& ask, int value) {
  if (co_await ask.says(value))
    if (co_await ask.says(value))
      if (co_await ask.says(value))
        if (co_await ask.says(value))
          if (co_await ask.says(value))
            if (co_await ask.says(value))
              if (co_await ask.says(value))
                if (co_await ask.says(value))
                  if (co_await ask.says(value)) co_return 9;
  co_return 2;
}
Task<int> while_plain(const Ask& ask, int value) {
  while (co_await ask.says(value)) value += 4;
  co_return value;
}
Task<int> while_not(const Ask& ask, int value) {
  while (!co_await ask.is(text_of(value - 3))) ++value;
  co_return value;
}
Task<int> while_declaration(const Ask& ask, int value) {
  while (auto found = co_await ask.is(text_of(value))) value += 1 + *found;
  co_return value;
}
Task<int> while_last(const Ask& ask, int value) {
  do ++value;
  while (co_await ask.says(value - 1));
  co_return value;
}
Task<int> for_condition(const Ask& ask, int value) {
  for (; co_await ask.says(value);) value = 5;
  co_return value;
}
Task<int> for_step(const Ask& ask, int value) {
  for (int i = 0; i < 3; i += co_await ask.says(1) ? 1 : 3) value += i;
  co_return value;
}
Task<int> switch_value(const Ask& ask, int value) {
  switch ((co_await ask.all()).front() + value) {
    case 2: co_return 1;
    default: co_return 2;
  }
}
Task<int> ternary(const Ask& ask, int value) { co_return co_await ask.is(text_of(value)) ? 1 : 2; }
Task<int> ternary_arms(const Ask& ask, int value) {
  co_return value == 1 ? *co_await ask.is(text_of(value)) : (co_await ask.all()).back();
}
Task<int> ternary_in_condition(const Ask& ask, int value) {
  if (value == 1 ? co_await ask.says(value) : co_await ask.says(2)) co_return 1;
  co_return 2;
}
Task<int> both(const Ask& ask, int value) {
  if (co_await ask.says(value) && co_await ask.is(text_of(value))) co_return 1;
  co_return 2;
}
Task<int> both_second(const Ask& ask, int value) {
  if (value == 1 && co_await ask.is(text_of(value))) co_return 1;
  co_return 2;
}
Task<int> either(const Ask& ask, int value) {
  if (!co_await ask.is(text_of(value)) || !co_await ask.says(value)) co_return 2;
  co_return 1;
}
Task<int> both_returned(const Ask& ask, int value) {
  co_return co_await ask.says(value) && co_await ask.is(text_of(value));
}
Task<int> range(const Ask& ask, int value) {
  for (const int number : co_await ask.all()) value += number;
  co_return value;
}
Task<int> range_of_conditions(const Ask& ask, int value) {
  for (const int number : co_await ask.all())
    if (co_await ask.says(number)) value += 10;
  co_return value;
}
Task<> nothing(const Ask& ask, int& value) {
  if (co_await ask.says(value)) value = 3;
}
Task<int> no_result(const Ask& ask, int value) {
  if (co_await ask.says(value)) co_await nothing(ask, value);
  co_return value;
}

}  // namespace

std::vector<Form> forms() {
  return {{"if", if_plain, 1},
          {"if not", if_not, 1},
          {"if else", if_else, 1},
          {"if a Result", if_result, 1},
          {"if a method of a Result", if_method, 1},
          {"if a comparison", if_compare, 1},
          {"if an operation", if_operation, 1},
          {"if with an initialiser", if_initialiser, 1},
          {"if with a declaration", if_declaration, 1},
          {"if in a block", if_in_block, 1},
          {"if in try", if_in_try, 7},
          {"if after a statement", if_after_statement, 1},
          {"if, nine deep", if_nine_deep, 9},
          {"while", while_plain, 5},
          {"while not", while_not, 4},
          {"while with a declaration", while_declaration, 3},
          {"do while", while_last, 3},
          {"for, condition", for_condition, 5},
          {"for, step", for_step, 4},
          {"switch", switch_value, 1},
          {"?:", ternary, 1},
          {"?:, arms", ternary_arms, 1},
          {"?: in a condition", ternary_in_condition, 1},
          {"&&", both, 1},
          {"&&, second", both_second, 1},
          {"||", either, 1},
          {"&&, returned", both_returned, 1},
          {"for over a range", range, 7},
          {"for over a range with conditions", range_of_conditions, 11},
          {"no result", no_result, 3}};
}
