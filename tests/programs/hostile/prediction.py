"""Predicts the next number of a xoshiro256** generator from the low bits of earlier ones, as a stranger does that
made some connections of its own: the low 24 bits of an output give 17 bits of the state, and these are linear."""

WORD = (1 << 64) - 1
KNOWN_BITS = 17


def rotated(value, by):
    return (value << by | value >> (64 - by)) & WORD


class Generator:
    """xoshiro256** from a given state."""

    def __init__(self, state):
        self.state = list(state)

    def next(self):
        s = self.state
        result = rotated(s[1] * 5 & WORD, 7) * 9 & WORD
        shifted = s[1] << 17 & WORD
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= shifted
        s[3] = rotated(s[3], 45)
        return result


def state_bits(low24):
    """The low bits of the state's second word that an output with these low 24 bits shows."""
    before_nine = low24 * pow(9, -1, 1 << 24) & 0xFFFFFF
    times_five = before_nine >> 7  # the rotation by 7 put the low 17 bits here
    return times_five * pow(5, -1, 1 << KNOWN_BITS) & ((1 << KNOWN_BITS) - 1)


def symbolic_outputs(count):
    """For each output, the known bits of the second word as masks over the 256 bits of the first state."""
    s = [[1 << (64 * word + bit) for bit in range(64)] for word in range(4)]

    def xor(a, b):
        return [x ^ y for x, y in zip(a, b)]

    for _ in range(count):
        yield s[1][:KNOWN_BITS]
        shifted = [0] * 17 + s[1][:47]
        s[2] = xor(s[2], s[0])
        s[3] = xor(s[3], s[1])
        s[1] = xor(s[1], s[2])
        s[0] = xor(s[0], s[3])
        s[2] = xor(s[2], shifted)
        s[3] = s[3][64 - 45:] + s[3][:64 - 45]


def predicted(seen):
    """The low 24 bits of the next output after these, or None where no xoshiro256** gave them."""
    rows = {}  # by their leading bit
    for masks, low24 in zip(symbolic_outputs(len(seen)), seen):
        known = state_bits(low24)
        for bit, mask in enumerate(masks):
            row, value = mask, known >> bit & 1
            while row != 0 and row.bit_length() - 1 in rows:
                other, other_value = rows[row.bit_length() - 1]
                row, value = row ^ other, value ^ other_value
            if row != 0:
                rows[row.bit_length() - 1] = (row, value)
            elif value != 0:
                return None
    state = 0
    for lead in sorted(rows):  # each row has only lower bits besides its leading one
        row, value = rows[lead]
        if bin(row & state).count("1") & 1 != value:
            state |= 1 << lead
    generator = Generator([state >> 64 * word & WORD for word in range(4)])
    for low24 in seen:
        if generator.next() & 0xFFFFFF != low24:
            return None
    return generator.next() & 0xFFFFFF
