/* The core of batches: what costs a copy of small batches most of its time, and nothing else.
 *
 * Five jobs on Kafka's record batches of format 2 (KIP-98, DefaultRecordBatch.java):
 *
 *   scan      the headers of a fetch answer, a row for each batch, with its checksum verified
 *   coalesce  batches that are alike become one: records get new offsets and timestamp deltas
 *   columns   where the key, the value and the headers of each record are
 *   build     records, by where they are in a buffer, become a batch
 *   stamp     a batch gets its producer, and the checksum that follows from the one it had
 *
 * No rule of replication is here. Which batches are aborted, control batches, the opposite
 * pipeline's, before a position or too large is decided in Python, on rows; coalesce merges only
 * rows that the caller has marked.
 *
 * Bytes are hostile. Every read and write is checked against the buffer that it is in; no length
 * in the input decides how much memory is allocated. What this file does not understand it refuses,
 * and the caller's plain Python path decides: so this file may refuse more than that path, but
 * accepts nothing that it would refuse, and makes the same bytes of the same records.
 *
 * There are no Python headers here: k2ktui/native/binding.py calls these functions by ctypes, which
 * releases the interpreter's lock. Functions of codecs come from there, too. A context belongs to
 * one thread at a time.
 *
 * C11 and little more: string.h, stdlib.h, and what tells the processor's abilities.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <nmmintrin.h>
#elif defined(__aarch64__)
#include <arm_acle.h>
#if defined(__linux__)
#include <sys/auxv.h>
#endif
#endif

#define EXPORT __attribute__((visibility("default")))

/* Raised whenever a struct or a function below changes; binding.py has the same number. */
enum { ABI = 4 };

/* What functions return below zero; from zero on it is a number of bytes, rows or records. */
enum {
  DAMAGED = -1, /* the bytes do not follow the format, or not as this file understands it */
  NO_ROOM = -2, /* a buffer of the caller is too small */
  NO_CODEC = -3, /* a codec failed, or there is none of this number */
  NO_MEMORY = -4,
};

/* ---- Layout of a batch ----------------------------------------------------------------------- */

enum {
  BASE_OFFSET_AT = 0,       /* int64 */
  LENGTH_AT = 8,            /* int32: bytes after it */
  LEADER_EPOCH_AT = 12,     /* int32 */
  MAGIC_AT = 16,            /* int8: 2 */
  CRC_AT = 17,              /* uint32: CRC-32C of all that follows */
  ATTRIBUTES_AT = 21,       /* int16 */
  LAST_DELTA_AT = 23,       /* int32: last offset less base offset */
  BASE_TIMESTAMP_AT = 27,   /* int64: epoch milliseconds */
  MAX_TIMESTAMP_AT = 35,    /* int64 */
  PRODUCER_ID_AT = 43,      /* int64 */
  PRODUCER_EPOCH_AT = 51,   /* int16 */
  BASE_SEQUENCE_AT = 53,    /* int32 */
  COUNT_AT = 57,            /* int32: records */
  HEADER_BYTES = 61,        /* then the records, compressed together */
  PREFIX_BYTES = 12,        /* what LENGTH_AT does not count */
  STAMPED_BYTES = HEADER_BYTES - ATTRIBUTES_AT,
};

enum { CODEC_MASK = 0x07, APPEND_TIME = 0x08, TRANSACTIONAL = 0x10 };
enum { NONE = 0, GZIP = 1, SNAPPY = 2, LZ4 = 3, ZSTD = 4 };

/* A record: varint length of the rest; attributes (1 byte, unused); varint timestamp delta; varint
 * offset delta; and its tail: varint key length and key, value length and value, number of headers
 * and headers. Varints are zigzag; a negative length is null. The tail is copied as it is. */
enum {
  RECORD_HEAD_BYTES = 21, /* most bytes before a tail: 5 + 1 + 10 + 5 */
  LEAST_RECORD_BYTES = 7, /* five varints of a byte, attributes, number of headers */
};

/* A batch of a fetch answer. binding.py has the same struct as a NumPy type. */
typedef struct {
  int64_t base_offset, last_offset;
  int64_t base_timestamp, max_timestamp; /* epoch milliseconds */
  int64_t producer_id;
  uint64_t position; /* bytes from the beginning of the buffer that was scanned */
  uint32_t size;     /* bytes, header included */
  int32_t leader_epoch, base_sequence, count;
  int16_t attributes, producer_epoch;
  uint8_t checksum_ok;
  uint8_t mergeable; /* 0 from scan; the caller sets 1 where coalesce may take the batch */
  uint8_t reserved[2];
} row;
_Static_assert(sizeof(row) == 72, "binding.py: ROW");

/* Rows of one buffer, for coalesce, which merges across answers. */
typedef struct {
  const uint8_t *bytes;
  uint64_t size;
  const row *rows;
  int64_t count; /* rows */
} piece;
_Static_assert(sizeof(piece) == 32, "binding.py: Piece");

/* Consecutive source offsets of records that follow each other in a built batch. */
typedef struct {
  int64_t first, count;
} range;

/* A batch that coalesce or build has written. */
typedef struct {
  uint64_t size;      /* bytes in the caller's buffer, header included */
  uint64_t body;      /* bytes of its records before compression */
  int64_t taken;      /* batches (coalesce) or records (build) of the input that are in it */
  int64_t count;      /* records */
  int64_t ranges;     /* source ranges that were written */
  int64_t last_offset; /* source offset of the last batch taken; coalesce only */
} built;
_Static_assert(sizeof(built) == 48, "binding.py: Built");

/* ---- Numbers --------------------------------------------------------------------------------- */

static inline uint16_t get16(const uint8_t *p) { return (uint16_t)(p[0] << 8 | p[1]); }

static inline uint32_t get32(const uint8_t *p) {
  return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static inline uint64_t get64(const uint8_t *p) { return (uint64_t)get32(p) << 32 | get32(p + 4); }

static inline void put16(uint8_t *p, uint16_t v) { p[0] = (uint8_t)(v >> 8), p[1] = (uint8_t)v; }

static inline void put32(uint8_t *p, uint32_t v) {
  put16(p, (uint16_t)(v >> 16)), put16(p + 2, (uint16_t)v);
}

static inline void put64(uint8_t *p, uint64_t v) {
  put32(p, (uint32_t)(v >> 32)), put32(p + 4, (uint32_t)v);
}

/* Sum of two signed numbers; it wraps, as in Java and NumPy. */
static inline int64_t add(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }

/* Difference; it wraps, too. */
static inline int64_t subtract(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a - (uint64_t)b);
}

static inline uint64_t zigzag(int64_t v) { return (uint64_t)v << 1 ^ (v < 0 ? UINT64_MAX : 0); }

/* Reads a zigzag varint before end; returns the place after it, or NULL: it ends behind end, or has
 * more than 64 bits. */
static inline const uint8_t *get_varint(const uint8_t *p, const uint8_t *end, int64_t *value) {
  uint64_t bits = 0;
  for (unsigned shift = 0; p < end; shift += 7) {
    uint8_t byte = *p++;
    if (shift == 63 && byte > 1) return NULL;
    bits |= (uint64_t)(byte & 0x7f) << shift;
    if (byte < 0x80) {
      *value = (int64_t)(bits >> 1) ^ -(int64_t)(bits & 1);
      return p;
    }
  }
  return NULL;
}

/* Writes at most 10 bytes, 5 for a zigzag number below 2^35; returns the place after them. */
static inline uint8_t *put_varint(uint8_t *p, uint64_t zigzagged) {
  for (; zigzagged >= 0x80; zigzagged >>= 7) *p++ = (uint8_t)(zigzagged | 0x80);
  *p++ = (uint8_t)zigzagged;
  return p;
}

/* Bytes that put_varint writes. */
static inline size_t varint_bytes(uint64_t zigzagged) {
  size_t bytes = 1;
  for (; zigzagged >= 0x80; zigzagged >>= 7) bytes++;
  return bytes;
}

/* ---- CRC-32C --------------------------------------------------------------------------------- */

/* A CRC is the remainder of a polynomial over bits. In its usual order of bits the highest bit of
 * a uint32_t is x^0, and POLYNOMIAL lacks its x^32. The functions here work on the register
 * without the inversions at the begin and the end: over it, everything is linear. */
#define POLYNOMIAL 0x82f63b78u
#define X_TO_0 0x80000000u

enum { LANE = 256 }; /* bytes of each of three streams that the processor works on at once */

static uint32_t by_byte[8][256]; /* [k][b]: the register after byte b and k zero bytes */
static uint32_t by_lane[4][256]; /* [k][b]: after LANE zero bytes, if byte k of it was b */
static uint32_t squares[36];     /* x to the power of 2^k */
static int has_instruction;

static uint32_t times_x(uint32_t a) { return a & 1 ? a >> 1 ^ POLYNOMIAL : a >> 1; }

static uint32_t multiply(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (; a; a <<= 1, b = times_x(b))
    if (a & X_TO_0) product ^= b;
  return product;
}

/* Returns the register after so many zero bytes (below 2^32); some 0.3 us. */
static uint32_t after_zeros(uint32_t crc, uint64_t bytes) {
  for (int k = 3; bytes && k < 36; bytes >>= 1, k++)
    if (bytes & 1) crc = multiply(squares[k], crc);
  return crc;
}

static uint32_t crc_by_table(uint32_t crc, const uint8_t *p, size_t size) {
  for (; size >= 8; size -= 8, p += 8) {
    crc ^= (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    crc = by_byte[7][crc & 255] ^ by_byte[6][crc >> 8 & 255] ^ by_byte[5][crc >> 16 & 255] ^
          by_byte[4][crc >> 24] ^ by_byte[3][p[4]] ^ by_byte[2][p[5]] ^ by_byte[1][p[6]] ^
          by_byte[0][p[7]];
  }
  for (; size; size--) crc = crc >> 8 ^ by_byte[0][(crc ^ *p++) & 255];
  return crc;
}

#if defined(__x86_64__)
#if defined(__clang__)
#define HAS_CRC_INSTRUCTION __attribute__((target("crc32")))
#else
#define HAS_CRC_INSTRUCTION __attribute__((target("sse4.2")))
#endif
#define CRC_OF_8(crc, word) (_mm_crc32_u64((crc), (word)))
#define CRC_OF_1(crc, byte) (_mm_crc32_u8((crc), (byte)))

static int find_instruction(void) {
  unsigned a, b, c = 0, d;
  return __get_cpuid(1, &a, &b, &c, &d) && c & 1u << 20; /* SSE4.2 */
}
#elif defined(__aarch64__)
#if defined(__clang__)
#define HAS_CRC_INSTRUCTION __attribute__((target("crc")))
#else
#define HAS_CRC_INSTRUCTION __attribute__((target("+crc")))
#endif
#define CRC_OF_8(crc, word) (__crc32cd((uint32_t)(crc), (word)))
#define CRC_OF_1(crc, byte) (__crc32cb((crc), (byte)))

static int find_instruction(void) {
#if defined(__linux__)
  return (getauxval(AT_HWCAP) & 1u << 7) != 0; /* HWCAP_CRC32 */
#else
  return 1; /* every Mac with this processor */
#endif
}
#endif

#if defined(HAS_CRC_INSTRUCTION)
static inline uint64_t load64(const uint8_t *p) { /* little-endian, as these processors are */
  uint64_t word;
  memcpy(&word, p, sizeof word);
  return word;
}

static inline uint32_t after_lane(uint32_t crc) {
  return by_lane[0][crc & 255] ^ by_lane[1][crc >> 8 & 255] ^ by_lane[2][crc >> 16 & 255] ^
         by_lane[3][crc >> 24];
}

/* The instruction takes three cycles, and one can begin in each: so three lanes side by side, each
 * from zero, which are then joined: a lane's register moves on by the lanes behind it. Registers
 * are of 64 bits, as the instruction has them: to narrow them costs a cycle each time. */
HAS_CRC_INSTRUCTION static uint32_t crc_by_instruction(uint32_t crc, const uint8_t *p,
                                                       size_t size) {
  for (; size >= 3 * LANE; size -= 3 * LANE, p += 3 * LANE) {
    uint64_t first = crc, second = 0, third = 0;
    for (const uint8_t *at = p; at < p + LANE; at += 8) {
      first = CRC_OF_8(first, load64(at));
      second = CRC_OF_8(second, load64(at + LANE));
      third = CRC_OF_8(third, load64(at + 2 * LANE));
    }
    crc = after_lane(after_lane((uint32_t)first) ^ (uint32_t)second) ^ (uint32_t)third;
  }
  uint64_t rest = crc;
  for (; size >= 8; size -= 8, p += 8) rest = CRC_OF_8(rest, load64(p));
  crc = (uint32_t)rest;
  for (; size; size--) crc = CRC_OF_1(crc, *p++);
  return crc;
}
#endif

static uint32_t crc_of(uint32_t crc, const uint8_t *p, size_t size) {
#if defined(HAS_CRC_INSTRUCTION)
  if (has_instruction) return crc_by_instruction(crc, p, size);
#endif
  return crc_by_table(crc, p, size);
}

/* The checksum of a batch, as its header has it. */
static uint32_t checksum_of(const uint8_t *batch, size_t size) {
  return ~crc_of(UINT32_MAX, batch + ATTRIBUTES_AT, size - ATTRIBUTES_AT);
}

static void make_tables(void) {
  for (uint32_t byte = 0; byte < 256; byte++) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; bit++) crc = times_x(crc);
    by_byte[0][byte] = crc;
  }
  for (uint32_t byte = 0; byte < 256; byte++)
    for (int k = 1; k < 8; k++)
      by_byte[k][byte] = by_byte[k - 1][byte] >> 8 ^ by_byte[0][by_byte[k - 1][byte] & 255];
  squares[0] = X_TO_0 >> 1;
  for (int k = 1; k < 36; k++) squares[k] = multiply(squares[k - 1], squares[k - 1]);
  for (uint32_t byte = 0; byte < 256; byte++)
    for (int k = 0; k < 4; k++) by_lane[k][byte] = after_zeros(byte << 8 * k, LANE);
}

/* ---- Scan ------------------------------------------------------------------------------------ */

/* Fills a row for each batch from the beginning of a fetch answer; returns the number of rows.
 *
 * Stops at the end, before a truncated batch, when the table is full, and before whatever is not a
 * batch of format 2 with a plausible header: consumed says where, in bytes, and the caller looks
 * there. A wrong checksum does not stop it.
 *
 *   bytes, size  the answer
 *   rows, most   the table, and for how many rows it has room
 */
EXPORT int64_t k2k_scan(const uint8_t *bytes, uint64_t size, row *rows, int64_t most,
                        uint64_t *consumed) {
  uint64_t at = 0;
  int64_t count = 0;
  while (count < most && size - at >= HEADER_BYTES) {
    const uint8_t *batch = bytes + at;
    int64_t base = (int64_t)get64(batch + BASE_OFFSET_AT);
    int32_t length = (int32_t)get32(batch + LENGTH_AT);
    int32_t delta = (int32_t)get32(batch + LAST_DELTA_AT);
    int32_t records = (int32_t)get32(batch + COUNT_AT);
    if (base < 0 || length < HEADER_BYTES - PREFIX_BYTES || batch[MAGIC_AT] != 2) break;
    if (delta < 0 || records < 0 || base > INT64_MAX - 1 - delta) break;
    uint64_t whole = (uint64_t)length + PREFIX_BYTES;
    if (whole > size - at) break;
    rows[count++] = (row){
        .base_offset = base,
        .last_offset = base + delta,
        .base_timestamp = (int64_t)get64(batch + BASE_TIMESTAMP_AT),
        .max_timestamp = (int64_t)get64(batch + MAX_TIMESTAMP_AT),
        .producer_id = (int64_t)get64(batch + PRODUCER_ID_AT),
        .position = at,
        .size = (uint32_t)whole,
        .leader_epoch = (int32_t)get32(batch + LEADER_EPOCH_AT),
        .base_sequence = (int32_t)get32(batch + BASE_SEQUENCE_AT),
        .count = records,
        .attributes = (int16_t)get16(batch + ATTRIBUTES_AT),
        .producer_epoch = (int16_t)get16(batch + PRODUCER_EPOCH_AT),
        .checksum_ok = checksum_of(batch, whole) == get32(batch + CRC_AT),
    };
    at += whole;
  }
  *consumed = at;
  return count;
}

/* ---- Codecs ---------------------------------------------------------------------------------- */

/* Functions of others, taken from Python packages that are installed anyway. Those of LZ4's frames
 * and of Zstandard are their libraries' public interfaces; a pair that is not there is NULL, and
 * its codec goes to the last one, which is Python. */
typedef struct {
  size_t (*lz4_new)(void **context, unsigned version); /* LZ4F_createDecompressionContext */
  size_t (*lz4_free)(void *context);
  void (*lz4_reset)(void *context);
  size_t (*lz4_decompress)(void *context, void *out, size_t *out_size, const void *in,
                           size_t *in_size, const void *options);
  size_t (*lz4_compress)(void *out, size_t room, const void *in, size_t size,
                         const void *preferences); /* LZ4F_compressFrame */
  unsigned (*lz4_is_error)(size_t result);
  void *(*zstd_new_reader)(void); /* ZSTD_createDCtx */
  size_t (*zstd_free_reader)(void *context);
  size_t (*zstd_decompress)(void *context, void *out, size_t room, const void *in, size_t size);
  void *(*zstd_new_writer)(void); /* ZSTD_createCCtx */
  size_t (*zstd_free_writer)(void *context);
  size_t (*zstd_compress)(void *context, void *out, size_t room, const void *in, size_t size,
                          int level);
  unsigned (*zstd_is_error)(size_t result);
  /* Returns the bytes that it wrote, or DAMAGED, NO_ROOM or NO_CODEC. */
  int64_t (*python)(int32_t codec, int32_t compresses, const uint8_t *in, uint64_t size,
                    uint8_t *out, uint64_t room);
} codecs;
_Static_assert(sizeof(codecs) == 14 * sizeof(void *), "binding.py: Codecs");

enum { LZ4_VERSION = 100, ZSTD_NO_ROOM = 70 }; /* LZ4F_VERSION; ZSTD_error_dstSize_tooSmall */

/* LZ4F_preferences_t. Kafka's Java clients refuse blocks that depend on others. */
typedef struct {
  uint32_t block_size, independent_blocks, content_checksum, frame_type;
  uint64_t content_size;
  uint32_t dictionary, block_checksum;
  int32_t level;
  uint32_t flush_at_once, favor_reading, reserved[3];
} lz4_preferences;
_Static_assert(sizeof(lz4_preferences) == 56, "lz4frame.h");

/* Memory that grows to what a caller's limit asks for and is kept. */
typedef struct {
  uint8_t *bytes;
  size_t room;
} memory;

/* What one thread works with. */
typedef struct {
  codecs with;
  void *lz4, *zstd_reader, *zstd_writer; /* made when first used */
  memory payload;                        /* one source batch's records, decompressed */
  memory body;                           /* the records of a batch before compression */
} context;

static int grow(memory *m, size_t room) {
  if (m->room >= room) return 1;
  uint8_t *bytes = realloc(m->bytes, room);
  if (!bytes) return 0;
  m->bytes = bytes, m->room = room;
  return 1;
}

/* Copies bytes that may overlap those behind them, as codecs mean it: they repeat. */
static uint8_t *repeat(uint8_t *out, size_t distance, size_t size) {
  const uint8_t *from = out - distance;
  while (size) { /* each pass doubles what can be copied at once */
    size_t part = (size_t)(out - from) < size ? (size_t)(out - from) : size;
    memcpy(out, from, part);
    out += part, size -= part;
  }
  return out;
}

/* Decompresses one block of Snappy (its format_description.txt); returns bytes or an error. */
static int64_t snappy_block(const uint8_t *in, const uint8_t *end, uint8_t *out, uint64_t room) {
  uint64_t expected = 0;
  for (unsigned shift = 0;; shift += 7) {
    if (in == end || shift > 28) return DAMAGED;
    expected |= (uint64_t)(*in & 0x7f) << shift;
    if (*in++ < 0x80) break;
  }
  if (expected > room) return NO_ROOM;
  uint8_t *at = out, *out_end = out + expected;
  while (in < end) {
    uint8_t tag = *in++;
    size_t size = tag >> 2, extra, distance = 0;
    switch (tag & 3) {
      case 0: /* a literal; sizes from 60 on are in 1 to 4 bytes */
        extra = size < 60 ? 0 : size - 59;
        if ((size_t)(end - in) < extra) return DAMAGED;
        if (extra) size = 0;
        for (size_t i = 0; i < extra; i++) size |= (size_t)in[i] << 8 * i;
        in += extra, size += 1;
        if (size > (size_t)(end - in) || size > (size_t)(out_end - at)) return DAMAGED;
        if (size <= 16 && end - in >= 16 && out_end - at >= 16)
          memcpy(at, in, 16);
        else
          memcpy(at, in, size);
        at += size, in += size;
        continue;
      case 1: /* a copy with a distance of 11 bits */
        if (in == end) return DAMAGED;
        distance = (size_t)(tag >> 5) << 8 | *in++;
        size = (size & 7) + 4;
        break;
      default: /* with one of 2 or 4 bytes */
        extra = (tag & 3) == 2 ? 2 : 4;
        if ((size_t)(end - in) < extra) return DAMAGED;
        for (size_t i = 0; i < extra; i++) distance |= (size_t)in[i] << 8 * i;
        in += extra, size += 1;
    }
    if (!distance || distance > (size_t)(at - out) || size > (size_t)(out_end - at))
      return DAMAGED;
    if (size <= 16 && distance >= 16 && out_end - at >= 16) {
      memcpy(at, at - distance, 16);
      at += size;
    } else {
      at = repeat(at, distance, size);
    }
  }
  return at == out_end ? (int64_t)expected : DAMAGED;
}

/* Decompresses Snappy as Kafka has it: blocks in the framing of Java's library, or one alone. */
static int64_t snappy_payload(const uint8_t *in, size_t size, uint8_t *out, uint64_t room) {
  static const uint8_t mark[8] = {0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0};
  const uint8_t *end = in + size;
  if (size < sizeof mark || memcmp(in, mark, sizeof mark)) return snappy_block(in, end, out, room);
  if (size < 16) return DAMAGED;
  uint64_t written = 0;
  for (in += 16; in < end;) {
    if (end - in < 4 || get32(in) > (size_t)(end - in - 4)) return DAMAGED;
    const uint8_t *block = in + 4;
    in = block + get32(in);
    int64_t part = snappy_block(block, in, out + written, room - written);
    if (part < 0) return part;
    written += (uint64_t)part;
  }
  return (int64_t)written;
}

/* Decompresses one LZ4 frame; bytes behind it are ignored, as Java does. */
static int64_t lz4_frame(context *c, const uint8_t *in, size_t size, uint8_t *out, size_t room) {
  size_t read = 0, written = 0;
  for (;;) {
    size_t in_size = size - read, out_size = room - written;
    size_t result =
        c->with.lz4_decompress(c->lz4, out + written, &out_size, in + read, &in_size, NULL);
    if (c->with.lz4_is_error(result) || in_size > size - read || out_size > room - written)
      return DAMAGED;
    read += in_size, written += out_size;
    if (!result) return (int64_t)written;
    if (!in_size && !out_size) return written == room ? NO_ROOM : DAMAGED;
  }
}

static int64_t lz4_payload(context *c, const uint8_t *in, size_t size, uint8_t *out, size_t room) {
  if (!c->lz4 && c->with.lz4_is_error(c->with.lz4_new(&c->lz4, LZ4_VERSION))) return NO_MEMORY;
  c->with.lz4_reset(c->lz4);
  int64_t written = lz4_frame(c, in, size, out, room);
  if (written < 0) {
    /* A reset keeps how much of a damaged frame is missing, and the next would not be read. */
    c->with.lz4_free(c->lz4);
    c->lz4 = NULL;
  }
  return written;
}

static int64_t zstd_payload(context *c, const uint8_t *in, size_t size, uint8_t *out,
                            size_t room) {
  if (!c->zstd_reader && !(c->zstd_reader = c->with.zstd_new_reader())) return NO_MEMORY;
  size_t written = c->with.zstd_decompress(c->zstd_reader, out, room, in, size);
  if (!c->with.zstd_is_error(written)) return written <= room ? (int64_t)written : DAMAGED;
  return (size_t)0 - written == ZSTD_NO_ROOM ? NO_ROOM : DAMAGED;
}

static int64_t by_python(context *c, int codec, int compresses, const uint8_t *in, size_t size,
                         uint8_t *out, size_t room) {
  if (!c->with.python) return NO_CODEC;
  int64_t written = c->with.python(codec, compresses, in, size, out, room);
  return written > 0 && (uint64_t)written > room ? NO_CODEC : written;
}

/* Decompresses the records of a batch to at most room bytes; returns their number or an error. */
static int64_t decompress(context *c, int codec, const uint8_t *in, size_t size, uint8_t *out,
                          size_t room) {
  switch (codec) {
    case SNAPPY:
      return snappy_payload(in, size, out, room);
    case LZ4:
      if (c->with.lz4_decompress) return lz4_payload(c, in, size, out, room);
      break;
    case ZSTD:
      if (c->with.zstd_decompress) return zstd_payload(c, in, size, out, room);
  }
  return by_python(c, codec, 0, in, size, out, room);
}

/* Compresses records; returns bytes, or an error: k2k_room has the room that never is too small.
 * level is the codec's; 0 is its default. */
static int64_t compress(context *c, int codec, int level, const uint8_t *in, size_t size,
                        uint8_t *out, size_t room) {
  size_t written;
  if (codec == LZ4 && c->with.lz4_compress) {
    lz4_preferences how = {.independent_blocks = 1, .content_size = size, .level = level,
                           .flush_at_once = 1};
    written = c->with.lz4_compress(out, room, in, size, &how);
    if (c->with.lz4_is_error(written)) return NO_CODEC;
  } else if (codec == ZSTD && c->with.zstd_compress) {
    if (!c->zstd_writer && !(c->zstd_writer = c->with.zstd_new_writer())) return NO_MEMORY;
    written = c->with.zstd_compress(c->zstd_writer, out, room, in, size, level);
    if (c->with.zstd_is_error(written)) return NO_CODEC;
  } else {
    return by_python(c, codec, 1, in, size, out, room);
  }
  return written <= room ? (int64_t)written : NO_CODEC;
}

/* Bytes that a batch needs at most whose records have size bytes before compression. */
EXPORT uint64_t k2k_room(uint64_t size) { return HEADER_BYTES + size + size / 6 + 4096; }

/* ---- Records --------------------------------------------------------------------------------- */

typedef struct {
  int64_t time_delta, offset_delta, key_length;
  const uint8_t *tail, *key, *end;
} record;

/* The place after a key or value of this length, which may be null; NULL if no byte of the record
 * follows it. */
static inline const uint8_t *skip(const uint8_t *p, int64_t length, const uint8_t *end) {
  if (length < 0) length = 0;
  return length < end - p ? p + length : NULL;
}

/* Reads the head of a record and its key's length; returns the place after the record, or NULL if
 * it is damaged or ends behind end. A byte at least follows its key. */
static inline const uint8_t *get_record(const uint8_t *p, const uint8_t *end, record *r) {
  int64_t length;
  p = get_varint(p, end, &length);
  if (!p || length < 1 || length > end - p) return NULL;
  r->end = p + length;
  p = get_varint(p + 1, r->end, &r->time_delta); /* after a byte of attributes */
  if (!p) return NULL;
  r->tail = get_varint(p, r->end, &r->offset_delta);
  if (!r->tail) return NULL;
  r->key = get_varint(r->tail, r->end, &r->key_length);
  return r->key && skip(r->key, r->key_length, r->end) ? r->end : NULL;
}

/* The timestamp of a record in epoch milliseconds. */
static inline int64_t timestamp_of(const row *batch, const record *r) {
  if (batch->attributes & APPEND_TIME) return batch->max_timestamp;
  return add(batch->base_timestamp, r->time_delta);
}

/* Whether a row's batch is within the buffer that it is said to be in. */
static int is_within(const row *batch, const piece *from) {
  return batch->size >= HEADER_BYTES && batch->position <= from->size &&
         batch->size <= from->size - batch->position;
}

/* Whether the records of a batch can be read from these bytes as its header says. */
static int is_plausible(const row *batch, uint64_t size) {
  return batch->count >= 0 && (uint64_t)batch->count <= size / LEAST_RECORD_BYTES &&
         batch->base_offset >= 0 && batch->last_offset >= batch->base_offset;
}

/* The columns of k2k_columns, in this order. Positions are bytes in the buffer with the records;
 * negative lengths are null. */
enum {
  OFFSET,
  TIMESTAMP, /* epoch milliseconds */
  TAIL,      /* position of the encoded key, value and headers */
  KEY, KEY_LENGTH,
  VALUE, VALUE_LENGTH,
  HEADERS,   /* position of the encoded headers, which end with the record */
  END,
  COLUMNS,
};

/* Fills the columns of one batch's records from index first on; returns their number, or DAMAGED.
 * The caller has checked that there is room for them. */
static int64_t fill_columns(const row *batch, const uint8_t *buffer, const uint8_t *p,
                            const uint8_t *end, int64_t *columns, int64_t room, int64_t first) {
  if (!is_plausible(batch, (uint64_t)(end - p))) return DAMAGED;
  int64_t last = -1, span = batch->last_offset - batch->base_offset;
  for (int64_t at = first; at < first + batch->count; at++) {
    record r;
    int64_t value_length;
    p = get_record(p, end, &r);
    if (!p || r.offset_delta <= last || r.offset_delta > span) return DAMAGED;
    last = r.offset_delta;
    const uint8_t *value = get_varint(skip(r.key, r.key_length, r.end), r.end, &value_length);
    const uint8_t *headers = value ? skip(value, value_length, r.end) : NULL;
    if (!headers) return DAMAGED;
    const int64_t fields[COLUMNS] = {
        batch->base_offset + r.offset_delta, timestamp_of(batch, &r), r.tail - buffer,
        r.key - buffer, r.key_length, value - buffer, value_length, headers - buffer,
        r.end - buffer};
    for (int k = 0; k < COLUMNS; k++) columns[k * room + at] = fields[k];
  }
  return p == end ? batch->count : DAMAGED;
}

/* Puts the records of a batch, decompressed, into out; returns their bytes or an error. */
static int64_t put_payload(context *c, const row *batch, const uint8_t *payload, uint8_t *out,
                           uint64_t room) {
  size_t size = batch->size - HEADER_BYTES;
  int codec = batch->attributes & CODEC_MASK;
  if (codec) return decompress(c, codec, payload, size, out, room);
  if (size > room) return NO_ROOM;
  memcpy(out, payload, size);
  return (int64_t)size;
}

/* Decodes batches to columns; returns the number of records, or an error if the first batch has one.
 *
 * Stops before the first batch that is damaged or for which there is no room: taken is the number of
 * batches before it, used that of bytes in body.
 *
 *   from             the batches
 *   body, body_room  gets their records, decompressed, which the columns refer to; without it, they
 *                    refer to the batches' own buffer, and a compressed batch is NO_ROOM
 *   columns, room    COLUMNS arrays of room numbers each, one behind the other
 */
EXPORT int64_t k2k_columns(context *c, const piece *from, uint8_t *body, uint64_t body_room,
                           int64_t *columns, int64_t room, int64_t *taken, uint64_t *used) {
  const uint8_t *buffer = body ? body : from->bytes;
  int64_t count = 0, error = 0;
  *used = 0;
  for (*taken = 0; *taken < from->count; *taken += 1) {
    const row *batch = from->rows + *taken;
    error = DAMAGED;
    if (!is_within(batch, from)) break;
    error = NO_ROOM;
    if (batch->count > room - count || (batch->attributes & CODEC_MASK && !body)) break;
    const uint8_t *payload = from->bytes + batch->position + HEADER_BYTES;
    int64_t size = batch->size - HEADER_BYTES;
    if (body) {
      error = size = put_payload(c, batch, payload, body + *used, body_room - *used);
      if (size < 0) break;
      payload = body + *used;
    }
    error = fill_columns(batch, buffer, payload, payload + size, columns, room, count);
    if (error < 0) break;
    count += batch->count;
    if (body) *used += (uint64_t)size;
  }
  return *taken ? count : error < 0 ? error : 0;
}

/* ---- Writing a batch ------------------------------------------------------------------------- */

/* Records that are written one behind the other. A copy of it is a place to return to. */
typedef struct {
  uint8_t *begin, *at, *end;
  int64_t base_timestamp, max_timestamp, count;
} writer;

/* Appends a record; returns whether there was room. */
static inline int put_record(writer *w, int64_t timestamp, const uint8_t *tail, size_t size) {
  if (size > INT32_MAX / 2 || w->count == INT32_MAX ||
      (size_t)(w->end - w->at) < size + RECORD_HEAD_BYTES)
    return 0;
  if (!w->count) w->base_timestamp = w->max_timestamp = timestamp;
  if (timestamp > w->max_timestamp) w->max_timestamp = timestamp;
  uint64_t time_delta = zigzag(subtract(timestamp, w->base_timestamp));
  uint64_t offset_delta = zigzag(w->count++);
  size_t length = 1 + varint_bytes(time_delta) + varint_bytes(offset_delta) + size;
  uint8_t *p = put_varint(w->at, zigzag((int64_t)length));
  *p++ = 0; /* attributes */
  p = put_varint(put_varint(p, time_delta), offset_delta);
  memcpy(p, tail, size);
  w->at = p + size;
  return 1;
}

/* Where records are written before their batch is complete: with a codec in the context's memory,
 * without one in the batch itself. Returns 0, NO_ROOM or NO_MEMORY. */
static int begin_batch(context *c, writer *w, int codec, uint64_t most, uint8_t *out,
                       uint64_t room) {
  memset(w, 0, sizeof *w);
  if (room < HEADER_BYTES) return NO_ROOM;
  if (codec) {
    if (!grow(&c->body, most)) return NO_MEMORY;
    w->begin = c->body.bytes, w->end = w->begin + most;
  } else {
    w->begin = out + HEADER_BYTES;
    w->end = out + (room - HEADER_BYTES < most ? room : HEADER_BYTES + most);
  }
  w->at = w->begin;
  return 0;
}

/* Compresses the records into out and writes the header; returns the batch's size or an error. The
 * batch has base offset 0, no leader epoch and no producer. */
static int64_t end_batch(context *c, const writer *w, int codec, int level, uint8_t *out,
                         uint64_t room) {
  int64_t size = w->at - w->begin;
  if (codec) {
    uint8_t *payload = out + HEADER_BYTES;
    size = compress(c, codec, level, w->begin, (size_t)size, payload, room - HEADER_BYTES);
    if (size < 0) return size;
  }
  if (size > INT32_MAX - HEADER_BYTES) return NO_ROOM;
  put64(out + BASE_OFFSET_AT, 0);
  put32(out + LENGTH_AT, (uint32_t)size + HEADER_BYTES - PREFIX_BYTES);
  put32(out + LEADER_EPOCH_AT, UINT32_MAX);
  out[MAGIC_AT] = 2;
  put16(out + ATTRIBUTES_AT, (uint16_t)codec);
  put32(out + LAST_DELTA_AT, (uint32_t)(w->count - 1));
  put64(out + BASE_TIMESTAMP_AT, (uint64_t)w->base_timestamp);
  put64(out + MAX_TIMESTAMP_AT, (uint64_t)w->max_timestamp);
  put64(out + PRODUCER_ID_AT, UINT64_MAX);
  put16(out + PRODUCER_EPOCH_AT, UINT16_MAX);
  put32(out + BASE_SEQUENCE_AT, UINT32_MAX);
  put32(out + COUNT_AT, (uint32_t)w->count);
  size += HEADER_BYTES;
  put32(out + CRC_AT, checksum_of(out, (size_t)size));
  return size;
}

/* ---- Coalesce -------------------------------------------------------------------------------- */

typedef struct {
  range *ranges;
  int64_t count, room;
} sources;

/* Notes the source offset of the next record; returns whether there was room. */
static inline int put_source(sources *s, int64_t offset) {
  if (s->count) {
    range *last = s->ranges + s->count - 1;
    if (last->first + last->count == offset) {
      last->count++;
      return 1;
    }
  }
  if (s->count == s->room) return 0;
  s->ranges[s->count++] = (range){offset, 1};
  return 1;
}

/* A merge that is going on. A copy of it is a place to return to, with the last range's count. */
typedef struct {
  writer w;
  sources s;
  const row *first, *last; /* batches that are in it; NULL: none yet */
  int64_t taken;           /* their number */
  uint64_t sum;            /* their bytes, compressed or not, whichever is larger */
  int codec;
} merge;

/* Whether a batch may follow those of a merge. */
static int is_alike(const merge *m, const row *batch) {
  return !m->first || ((batch->attributes & CODEC_MASK) == m->codec &&
                       batch->leader_epoch == m->first->leader_epoch &&
                       batch->base_offset > m->last->last_offset);
}

/* Appends the records of a batch; returns 0, or an error, and then the merge has a part of them. */
static int append_records(merge *m, const row *batch, const uint8_t *p, uint64_t size) {
  const uint8_t *end = p + size;
  if (!is_plausible(batch, size)) return DAMAGED;
  int64_t last = -1, span = batch->last_offset - batch->base_offset;
  for (int32_t i = 0; i < batch->count; i++) {
    record r;
    p = get_record(p, end, &r);
    if (!p || r.offset_delta <= last || r.offset_delta > span) return DAMAGED;
    last = r.offset_delta;
    if (!put_record(&m->w, timestamp_of(batch, &r), r.tail, (size_t)(r.end - r.tail)) ||
        !put_source(&m->s, batch->base_offset + r.offset_delta))
      return NO_ROOM;
  }
  return p == end ? 0 : DAMAGED;
}

/* Adds a batch to a merge; returns 0, or an error, and then the merge is as before. */
static int64_t add_batch(context *c, merge *m, const piece *from, const row *batch,
                         uint64_t most) {
  if (!batch->mergeable || !is_within(batch, from) || !is_alike(m, batch)) return DAMAGED;
  const uint8_t *payload = from->bytes + batch->position + HEADER_BYTES;
  int64_t size = batch->size - HEADER_BYTES;
  if (m->codec) {
    size = decompress(c, m->codec, payload, (size_t)size, c->payload.bytes, most);
    if (size < 0) return size;
    payload = c->payload.bytes;
  }
  const merge before = *m;
  const int64_t range_before = m->s.count ? m->s.ranges[m->s.count - 1].count : 0;
  int64_t error = append_records(m, batch, payload, (uint64_t)size);
  if (error) {
    *m = before;
    if (m->s.count) m->s.ranges[m->s.count - 1].count = range_before;
    return error;
  }
  if (!m->first) m->first = batch;
  m->last = batch;
  m->taken++;
  m->sum += (uint64_t)size > batch->size ? (uint64_t)size : batch->size;
  return 0;
}

/* Merges batches from the first row on into one, as long as they are alike: marked as mergeable, of
 * one codec and leader epoch, with ascending offsets. Returns the size of the batch, 0 if there are
 * no records or fewer than least batches, or an error of the first batch or of the codec that
 * compresses.
 *
 * Ends before a batch that is damaged, that decompresses to more than most bytes, or with which
 * the records would have more than largest bytes before compression, and after the one with which
 * the sum of the batches' sizes, compressed or not, whichever is larger, reaches most.
 *
 *   pieces, count        rows of one or several buffers, in the order of offsets
 *   least                batches; fewer are not compressed again
 *   most                 bytes
 *   largest              bytes; as many and most are allocated
 *   level                of the compression, 0 for the codec's default
 *   out, room            gets the batch; k2k_room(largest) never is too small
 *   ranges, ranges_room  gets the source offsets of its records
 */
EXPORT int64_t k2k_coalesce(context *c, const piece *pieces, int64_t count, int64_t least,
                            uint64_t most, uint64_t largest, int32_t level, uint8_t *out,
                            uint64_t room, range *ranges, int64_t ranges_room, built *result) {
  memset(result, 0, sizeof *result);
  if (most > INT32_MAX / 4 || largest > INT32_MAX / 2) return NO_ROOM;
  while (count && !pieces->count) pieces++, count--;
  if (!count) return 0;
  merge m = {.s = {ranges, 0, ranges_room}, .codec = pieces->rows->attributes & CODEC_MASK};
  int64_t error = begin_batch(c, &m.w, m.codec, largest, out, room);
  if (!error && m.codec && !grow(&c->payload, most)) error = NO_MEMORY;
  for (int64_t k = 0; k < count; k++)
    for (int64_t i = 0; i < pieces[k].count && m.sum < most && !error; i++)
      error = add_batch(c, &m, pieces + k, pieces[k].rows + i, most);
  if (!m.taken) return error;
  if (!m.w.count || m.taken < least) return 0;
  int64_t size = end_batch(c, &m.w, m.codec, level, out, room);
  if (size < 0) return size;
  result->size = (uint64_t)size, result->body = (uint64_t)(m.w.at - m.w.begin);
  result->taken = m.taken, result->count = m.w.count, result->ranges = m.s.count;
  result->last_offset = m.last->last_offset;
  return size;
}

/* ---- Build and compare ------------------------------------------------------------------------ */

/* Where records are: the tail of each between two positions in a buffer. */
typedef struct {
  const uint8_t *bytes;
  uint64_t size;
  const int64_t *timestamps, *tails, *ends; /* epoch milliseconds; bytes */
  int64_t count;
} located;
_Static_assert(sizeof(located) == 48, "binding.py: Located");

/* The bytes of a record's tail, -1 if it is not within the buffer. */
static inline int64_t tail_bytes(const located *from, int64_t at) {
  int64_t tail = from->tails[at], end = from->ends[at];
  return tail < 0 || end < tail || (uint64_t)end > from->size ? -1 : end - tail;
}

/* Encodes records into one batch; returns its size, or an error.
 *
 * Ends before the record with which the batch could exceed most bytes before compression; one that
 * is larger is alone. taken is the number of records in it.
 *
 *   from        the records
 *   out, room   gets the batch; k2k_room(of most, or of the largest record) never is too small
 */
EXPORT int64_t k2k_build(context *c, const located *from, uint64_t most, int32_t codec,
                         int32_t level, uint8_t *out, uint64_t room, built *result) {
  memset(result, 0, sizeof *result);
  uint64_t sum = HEADER_BYTES;
  int64_t taken = 0;
  for (; taken < from->count; taken++) {
    int64_t tail = tail_bytes(from, taken);
    if (tail < 0) return DAMAGED;
    uint64_t size = (uint64_t)tail + RECORD_HEAD_BYTES;
    if (size > INT32_MAX / 2) return NO_ROOM;
    if (taken && (sum + size > most || sum + size > INT32_MAX / 2)) break;
    sum += size;
  }
  if (!taken) return 0;
  writer w;
  int64_t error = begin_batch(c, &w, codec, sum, out, room);
  if (error) return error;
  for (int64_t at = 0; at < taken; at++) {
    size_t size = (size_t)(from->ends[at] - from->tails[at]);
    if (!put_record(&w, from->timestamps[at], from->bytes + from->tails[at], size)) return NO_ROOM;
  }
  int64_t size = end_batch(c, &w, codec, level, out, room);
  if (size < 0) return size;
  result->size = (uint64_t)size, result->body = (uint64_t)(w.at - w.begin);
  result->taken = result->count = taken;
  return size;
}

/* Returns how many of count records, from these places on, have the same timestamp and tail, up to
 * the first that has not; DAMAGED if one is not there. */
EXPORT int64_t k2k_same(const located *one, int64_t at, const located *other, int64_t there,
                        int64_t count) {
  if (at < 0 || there < 0 || count < 0 || at > one->count - count || there > other->count - count)
    return DAMAGED;
  for (int64_t i = 0; i < count; i++, at++, there++) {
    int64_t size = tail_bytes(one, at), size_there = tail_bytes(other, there);
    if (size < 0 || size_there < 0) return DAMAGED;
    if (size != size_there || one->timestamps[at] != other->timestamps[there] ||
        memcmp(one->bytes + one->tails[at], other->bytes + other->tails[there], (size_t)size))
      return i;
  }
  return count;
}

/* ---- Stamp ----------------------------------------------------------------------------------- */

/* Writes this producer into a batch, in place; returns 0, or DAMAGED if it is shorter than a header.
 *
 * Compression, records and timestamps stay; base offset, leader epoch and all other attributes go.
 * If the checksum in the batch is known to be right, the new one follows from it and from what has
 * changed in the header: a byte that was damaged in memory meanwhile is still found by the broker.
 * Otherwise, it is computed.
 */
EXPORT int64_t k2k_stamp(uint8_t *batch, uint64_t size, int64_t producer_id, int32_t epoch,
                         int32_t sequence, int32_t transactional, int32_t checksum_known) {
  if (size < HEADER_BYTES || size > INT32_MAX) return DAMAGED;
  uint8_t *stamped = batch + ATTRIBUTES_AT, change[STAMPED_BYTES];
  memcpy(change, stamped, STAMPED_BYTES);
  unsigned attributes = get16(stamped) & CODEC_MASK;
  put16(stamped, (uint16_t)(attributes | (transactional ? TRANSACTIONAL : 0)));
  put64(batch + PRODUCER_ID_AT, (uint64_t)producer_id);
  put16(batch + PRODUCER_EPOCH_AT, (uint16_t)epoch);
  put32(batch + BASE_SEQUENCE_AT, (uint32_t)sequence);
  put64(batch + BASE_OFFSET_AT, 0);
  put32(batch + LEADER_EPOCH_AT, UINT32_MAX);
  if (!checksum_known) {
    put32(batch + CRC_AT, checksum_of(batch, size));
    return 0;
  }
  for (int i = 0; i < STAMPED_BYTES; i++) change[i] ^= stamped[i];
  uint32_t difference = after_zeros(crc_of(0, change, STAMPED_BYTES), size - HEADER_BYTES);
  put32(batch + CRC_AT, get32(batch + CRC_AT) ^ difference);
  return 0;
}

/* ---- Begin and end --------------------------------------------------------------------------- */

/* Prepares the library, once, before anything else; returns ABI. */
EXPORT int32_t k2k_start(void) {
  make_tables();
#if defined(HAS_CRC_INSTRUCTION)
  has_instruction = find_instruction();
#endif
  return ABI;
}

/* Returns whether checksums are computed by the processor's instruction. */
EXPORT int32_t k2k_has_instruction(void) { return has_instruction; }

/* The CRC-32C of bytes, for tests; by_tables: as on a processor without an instruction. */
EXPORT uint32_t k2k_checksum(const uint8_t *bytes, uint64_t size, int32_t by_tables) {
  return ~(by_tables ? crc_by_table : crc_of)(UINT32_MAX, bytes, size);
}

/* Decompresses to at most room bytes, or compresses; returns the number of bytes or an error. For
 * the check when the library is loaded. */
EXPORT int64_t k2k_codec(context *c, int32_t codec, int32_t compresses, const uint8_t *in,
                         uint64_t size, uint8_t *out, uint64_t room) {
  if (compresses) return compress(c, codec, 0, in, size, out, room);
  return decompress(c, codec, in, size, out, room);
}

/* Returns a context for one thread, or NULL. */
EXPORT context *k2k_open(const codecs *with) {
  context *c = calloc(1, sizeof *c);
  if (c) c->with = *with;
  return c;
}

EXPORT void k2k_close(context *c) {
  if (!c) return;
  if (c->lz4) c->with.lz4_free(c->lz4);
  if (c->zstd_reader) c->with.zstd_free_reader(c->zstd_reader);
  if (c->zstd_writer) c->with.zstd_free_writer(c->zstd_writer);
  free(c->payload.bytes);
  free(c->body.bytes);
  free(c);
}
