// SPDX-License-Identifier: BSD-2-Clause
// Shared by the programs of the guest: random words for attackers, and a reader of GIDs.
#pragma once
#include <stdbool.h>
#include <stdio.h>

static unsigned long long state;

static inline unsigned pick(unsigned below) {
  state = state * 6364136223846793005ull + 1442695040888963407ull;
  return (unsigned)(state >> 33) % below;
}

// A word as an attacker would choose it: small, all ones, or anything.
static inline unsigned any_word(void) {
  switch (pick(4)) {
    case 0: return pick(64);
    case 1: return ~0u;
    default: return pick(0x7fffffff) * 2u + pick(2);
  }
}

// Reads eight groups of hexadecimal digits, as /sys/class/infiniband shows them.
static inline bool read_gid(const char* text, unsigned char gid[16]) {
  unsigned words[8];
  if (sscanf(text, "%x:%x:%x:%x:%x:%x:%x:%x", words, words + 1, words + 2, words + 3, words + 4, words + 5,
             words + 6, words + 7) != 8)
    return false;
  for (int i = 0; i < 8; ++i) {
    gid[2 * i] = (unsigned char)(words[i] >> 8);
    gid[2 * i + 1] = (unsigned char)words[i];
  }
  return true;
}
