# cython: language_level=3, cdivision=True, embedsignature=True, embedsignature.format=python
"""The compiled backend of signatures: the same behaviour as ``_secp_py.py``, which documents it.

Recovery calls the libsecp256k1 of coincurve by address, without the GIL. A ``Plan`` is a schema in
C; plans live as long as the process. Unusual values are passed to the Python twin or to the reader
of the field, which also raise all errors.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport uint8_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy, memset

import msgspec
from coincurve._libsecp256k1 import ffi, lib

from clob.order import Side
from clob.signing import _keccak_c, _secp_py, fields
from clob.signing.errors import InvalidFieldError, Verdict

# ----- C helpers -----------------------------------------------------------------------------

cdef extern from "_secp.h" nogil:
    """
    #include <Python.h>
    #include "structmember.h"

    /* Writes an integer as 32 bytes, big-endian; returns 0 if it does not fit. Never raises. */
    static inline int long_write(PyObject *value, uint8_t to[32]) {
        int overflow;
        long long small = PyLong_AsLongLongAndOverflow(value, &overflow);
        if (overflow < 0 || (!overflow && small < 0)) {
            if (PyErr_Occurred()) PyErr_Clear();
            return 0;
        }
        if (!overflow) {
            memset(to, 0, 24);
            for (int i = 31; i > 23; i--, small >>= 8) to[i] = (uint8_t)small;
            return 1;
        }
    #if PY_VERSION_HEX < 0x030D0000
        if (_PyLong_NumBits(value) > 256) return 0;
        return _PyLong_AsByteArray((PyLongObject *)value, to, 32, 0, 0) == 0;
    #else
        Py_ssize_t needed = PyLong_AsNativeBytes(
            value, to, 32, Py_ASNATIVEBYTES_BIG_ENDIAN | Py_ASNATIVEBYTES_UNSIGNED_BUFFER);
        return needed <= 32;
    #endif
    }

    /* The offset of a slot of a Struct type, or -1 if the type has no such slot. */
    static inline Py_ssize_t slot_offset(PyObject *descriptor) {
        if (!Py_IS_TYPE(descriptor, &PyMemberDescr_Type)) return -1;
        return ((PyMemberDescrObject *)descriptor)->d_member->offset;
    }

    /* The characters of an ASCII text, else NULL. */
    static inline const uint8_t *text_ascii(PyObject *text, Py_ssize_t *length) {
        if (!PyUnicode_CheckExact(text) || !PyUnicode_IS_COMPACT_ASCII(text)) return NULL;
        *length = PyUnicode_GET_LENGTH(text);
        return (const uint8_t *)PyUnicode_DATA(text);
    }

    static inline PyObject *text_of_address(const uint8_t address[20]) {
        PyObject *text = PyUnicode_New(42, 127);
        if (text != NULL) address_write(address, (uint8_t *)PyUnicode_DATA(text));
        return text;
    }

    /* The integer of 1 to 77 decimal digits, which fits 256 bits; else NULL. The text ends with a
       zero byte, as in CPython. Raises only MemoryError. */
    static inline PyObject *long_of_digits(const uint8_t *digits, Py_ssize_t count) {
        if (count < 1 || count > 77) return NULL;
        uint64_t value = 0;
        for (Py_ssize_t i = 0; i < count; i++) {
            if (digits[i] < '0' || digits[i] > '9') return NULL;
            if (count <= 19) value = value * 10 + (digits[i] - '0');
        }
        if (count <= 19) return PyLong_FromUnsignedLongLong(value);
        return PyLong_FromString((const char *)digits, NULL, 10);
    }
    """
    ctypedef struct Case:
        uint8_t* words
        size_t num_bytes
        uint8_t signature[65]
        uint8_t signer[20]
        uint8_t owner[20]
        uint8_t rule
        uint8_t verdict
        uint8_t is_digest

    enum:
        VERDICT_VALID
        VERDICT_INVALID_FIELD
        VERDICT_UNSUPPORTED_TYPE
        VERDICT_CONTRACT_WALLET
        VERDICT_MALFORMED
        RULE_EIP712
        RULE_CONTRACT_ONLY

    void keccak "keccak256"(const uint8_t* data, size_t length, uint8_t* hash)
    int hex_read(const uint8_t* digits, size_t count, uint8_t* bytes)
    void secp_connect(uintptr_t context, uintptr_t parse, uintptr_t recover, uintptr_t serialize)
    int signature_check(uint8_t* signature)
    int signature_recover(const uint8_t* digest, const uint8_t* signature, uint8_t* address)
    void digest_of_struct(const uint8_t* separator, const uint8_t* struct_hash, uint8_t* digest)
    void digest_personal(const uint8_t* digest, uint8_t* personal)
    void cases_verify(Case* cases, size_t count, const uint8_t* separator)

cdef extern from *:
    bint long_write(PyObject* value, uint8_t* to)
    Py_ssize_t slot_offset(PyObject* descriptor)
    const uint8_t* text_ascii(PyObject* text, Py_ssize_t* length)
    PyObject* text_of_address(const uint8_t* address)
    PyObject* long_of_digits(const uint8_t* digits, Py_ssize_t count)

cdef extern from "Python.h":
    bint is_integer "PyLong_CheckExact"(PyObject* value)
    bint is_any_integer "PyLong_Check"(PyObject* value)
    bint is_raw "PyBytes_CheckExact"(PyObject* value)
    bint is_dict "PyDict_CheckExact"(PyObject* value)
    PyObject* type_of "(PyObject *)Py_TYPE"(PyObject* value)
    PyObject* dict_get "PyDict_GetItemWithError"(PyObject* entries, PyObject* key) except? NULL
    PyObject* called "PyObject_Vectorcall"(
        PyObject* kind, PyObject** arguments, size_t count, PyObject* names
    )
    const char* utf8 "PyUnicode_AsUTF8AndSize"(PyObject* text, Py_ssize_t* size)
    bint is_text "PyUnicode_Check"(PyObject* value)
    bint is_exact_text "PyUnicode_CheckExact"(PyObject* value)
    void forget "PyErr_Clear"()
    void incref "Py_INCREF"(PyObject* value)
    void decref "Py_DECREF"(PyObject* value)
    void decref_maybe "Py_XDECREF"(PyObject* value)
    PyObject* TRUE "Py_True"
    PyObject* FALSE "Py_False"
    PyObject* NONE "Py_None"

# ----- the curve -----------------------------------------------------------------------------

BACKEND = "libsecp256k1"


def connect():
    # Raises AttributeError if the library of coincurve is incompatible.
    def address(name):
        return int(ffi.cast("uintptr_t", ffi.addressof(lib, name)))

    signature = ffi.sizeof("secp256k1_ecdsa_recoverable_signature")
    key = ffi.sizeof("secp256k1_pubkey")
    if (signature, key) != (65, 64):
        raise ImportError(
            "libsecp256k1 must keep signatures in 65 bytes and keys in 64; "
            f"got {signature}, {key}"
        )
    secp_connect(
        int(ffi.cast("uintptr_t", lib.secp256k1_context_static)),
        address("secp256k1_ecdsa_recoverable_signature_parse_compact"),
        address("secp256k1_ecdsa_recover"),
        address("secp256k1_ec_pubkey_serialize"),
    )


connect()

# ----- plans ---------------------------------------------------------------------------------

cdef enum:
    # How a field is read from JSON, and encoded as a word.
    READ_BY_READER = 0
    READ_INTEGER = 1
    READ_ADDRESS = 2
    READ_SIDE = 3
    READ_SALT = 4
    READ_UINT8 = 5

    WORD_INTEGER = 0
    WORD_UINT8 = 1
    WORD_ADDRESS = 2
    WORD_BOOL = 3
    WORD_RAW = 4
    WORD_TEXT = 5
    WORD_SALT = 6

    SAFE_DIGITS = 16            # digits of the largest integer that every JSON reader keeps
    FIELDS_MAX = 32
    WORDS_BYTES = 32 * (FIELDS_MAX + 1)
    CHUNK = 1024                # verifications per release of the GIL

cdef dict READS = {
    fields.uint: READ_INTEGER,
    fields.uint8: READ_UINT8,
    fields.amount: READ_INTEGER,
    fields.address: READ_ADDRESS,
    fields.side: READ_SIDE,
    fields.salt: READ_SALT,
}
cdef dict WORDS = {
    "uint256": WORD_INTEGER,
    "uint8": WORD_UINT8,
    "address": WORD_ADDRESS,
    "bool": WORD_BOOL,
    "bytes32": WORD_RAW,
    "string": WORD_TEXT,
}
cdef tuple SIDES = (Side.BUY, Side.SELL)
cdef str SIGNATURE = "signature"
cdef str EMPTY = ""


cdef struct Form:
    PyObject* name              # in JSON
    Py_ssize_t offset           # offset in an instance
    PyObject* reader            # the Python function
    PyObject* default           # or NULL
    int read
    int word
    int same_as                 # index of the field to copy the value from, or -1


cdef class Plan:
    cdef Form forms[FIELDS_MAX]
    cdef uint8_t type_hash[32]
    cdef int count
    cdef int signer             # indices of the fields signer, owner
    cdef int owner
    cdef int kind               # and signature type; -1 if only EIP-712 is allowed
    cdef object names           # argument names of the constructor


# None for a type whose schema only the twin supports.
cdef dict PLANS = {}


cdef PyObject* immortal(object value) except NULL:
    # A reference that is never released.
    Py_INCREF(value)
    return <PyObject*>value


cdef Plan plan_of(PyObject* kind):
    cdef PyObject* plan = dict_get(<PyObject*>PLANS, kind)
    if plan == NULL:
        PLANS[<object>kind] = make_plan(<object>kind)
        plan = dict_get(<PyObject*>PLANS, kind)
    return <Plan>plan


cdef Plan make_plan(object kind):
    cdef object schema = kind.SCHEMA
    cdef Plan plan = Plan.__new__(Plan)
    cdef Form* form
    cdef object descriptor
    cdef list attributes = [field.attribute for field in schema.fields]
    cdef dict defaults = {each.name: each.default for each in msgspec.structs.fields(kind)}
    cdef dict types = {field.attribute: field.type for field in schema.fields}
    if (
        len(attributes) > FIELDS_MAX
        or any(field.type not in WORDS for field in schema.fields)
        or types.get(schema.owner) != "address"
        or types.get(schema.signer) != "address"
        or (schema.signature_type is not None and types.get(schema.signature_type) != "uint8")
    ):
        return None
    memcpy(plan.type_hash, PyBytes_AS_STRING(schema.type_hash), 32)
    plan.count = len(attributes)
    plan.signer, plan.owner = attributes.index(schema.signer), attributes.index(schema.owner)
    plan.kind = -1 if schema.signature_type is None else attributes.index(schema.signature_type)
    plan.names = (*attributes, "signature")
    for place, field in enumerate(schema.fields):
        form = &plan.forms[place]
        form.name, form.reader = immortal(field.name), immortal(field.read)
        descriptor = getattr(kind, field.attribute)
        form.offset = slot_offset(<PyObject*>descriptor)
        form.read, form.word = READS.get(field.read, READ_BY_READER), WORDS[field.type]
        if form.read == READ_SALT and form.word == WORD_INTEGER:
            form.word = WORD_SALT
        form.same_as = attributes.index(field.same_as) if field.same_as else -1
        default = defaults[field.attribute]
        if not field.required and default is not msgspec.NODEFAULT:
            form.default = immortal(default)
    return plan if offsets_right(plan, kind, attributes) else None


cdef bint offsets_right(Plan plan, object kind, list attributes) except -1:
    # Reading a field by offset takes a fifth of an attribute lookup. An instance with a distinct
    # object in every field proves the offsets first.
    cdef object trial, value
    cdef int place
    try:
        trial = kind(**{each.name: object() for each in msgspec.structs.fields(kind)})
    except Exception:  # a class may check its values in __post_init__
        return False
    for place in range(plan.count):
        value = getattr(trial, attributes[place])
        if plan.forms[place].offset < 0 or slot(trial, &plan.forms[place]) != <PyObject*>value:
            return False
    return True


cdef inline PyObject* slot(object instance, const Form* form) noexcept:
    return (<PyObject**>(<char*><PyObject*>instance + form.offset))[0]

# ----- encoding as words -----------------------------------------------------------------------


cdef bint write_word(int kind, PyObject* value, uint8_t* to) except -1:
    # False if the value does not have the type, or only the twin can decide.
    cdef Py_ssize_t length = 0
    cdef const uint8_t* text
    if kind == WORD_ADDRESS:
        text = text_ascii(value, &length)
        memset(to, 0, 12)
        return (
            text != NULL and length == 42 and text[0] == c"0" and text[1] == c"x"
            and hex_read(text + 2, 20, to + 12)
        )
    if kind <= WORD_UINT8:
        if is_any_integer(value):
            if value == TRUE or value == FALSE or not long_write(value, to):
                return False
            return kind == WORD_INTEGER or small_word(to)
        return False
    if kind == WORD_RAW:
        if not is_raw(value) or PyBytes_GET_SIZE(<object>value) != 32:
            return False
        memcpy(to, PyBytes_AS_STRING(<object>value), 32)
        return True
    if kind == WORD_BOOL:
        memset(to, 0, 32)
        to[31] = value == TRUE
        return value == TRUE or value == FALSE
    if kind == WORD_SALT:
        if is_text(value):
            return write_salt(value, to)
        return write_word(WORD_INTEGER, value, to)
    if not is_text(value):
        return False
    text = <const uint8_t*>utf8(value, &length)
    if text == NULL:
        forget()
        return False
    keccak(text, length, to)
    return True


cdef inline bint small_word(const uint8_t* word) noexcept:
    cdef int place
    for place in range(31):
        if word[place]:
            return False
    return True


cdef inline bint is_plain_word(const uint8_t* text, Py_ssize_t length) noexcept:
    # Neither decimal digits nor 0x...: a salt whose number is its hash.
    cdef Py_ssize_t place = 0
    while place < length and 48 <= text[place] <= 57:
        place += 1
    if place == length:
        return False
    return not (place == 1 and text[0] == 48 and text[1] == 120)


cdef bint write_salt(PyObject* value, uint8_t* to) except -1:
    cdef Py_ssize_t length = 0
    cdef const uint8_t* text = text_ascii(value, &length)
    cdef PyObject* number = NULL
    cdef bint fits
    if text != NULL:
        number = long_of_digits(text, length)
        if number == NULL and is_plain_word(text, length):
            keccak(text, length, to)
            return True
    if number != NULL:
        fits = long_write(number, to)
        decref(number)
        return fits
    cdef object salt_value
    try:
        salt_value = fields.salt_number(<object>value)
    except UnicodeEncodeError:
        return False
    return long_write(<PyObject*>salt_value, to)


cdef inline bint write_field(Plan plan, int place, object value, uint8_t* to) except -1:
    # False if the value does not fit. Holds a reference, since not every class is frozen.
    cdef PyObject* inner = slot(value, &plan.forms[place])
    if inner == NULL:
        return False
    incref(inner)
    try:
        return write_word(plan.forms[place].word, inner, to)
    finally:
        decref(inner)


cdef bint write_words(Plan plan, object value, uint8_t* to) except -1:
    # False if a value does not fit.
    cdef int place
    memcpy(to, plan.type_hash, 32)
    for place in range(plan.count):
        to += 32
        if not write_field(plan, place, value, to):
            return False
    return True

# ----- hashes --------------------------------------------------------------------------------

keccak256 = _keccak_c.keccak256


cdef bytes bytes_of(const uint8_t* at, Py_ssize_t length):
    return PyBytes_FromStringAndSize(<const char*>at, length)


cdef const uint8_t* word_at(bytes raw) except NULL:
    if PyBytes_GET_SIZE(raw) != 32:
        raise ValueError("value must have 32 bytes")
    return <const uint8_t*>PyBytes_AS_STRING(raw)


def checksummed(bytes raw not None):
    if PyBytes_GET_SIZE(raw) != 20:
        raise ValueError("address must have 20 bytes")
    return owned(text_of_address(<const uint8_t*>PyBytes_AS_STRING(raw)))


def hash_struct(value):
    cdef uint8_t words[WORDS_BYTES]
    cdef uint8_t hash[32]
    cdef Plan plan = plan_of(type_of(<PyObject*>value))
    if plan is None or not write_words(plan, value, words):
        return _secp_py.hash_struct(value)
    keccak(words, 32 * (plan.count + 1), hash)
    return bytes_of(hash, 32)


def digest_of(value, bytes separator not None):
    cdef uint8_t digest[32]
    cdef bytes hashed = hash_struct(value)
    digest_of_struct(word_at(separator), <const uint8_t*>PyBytes_AS_STRING(hashed), digest)
    return bytes_of(digest, 32)


def personal_digest(bytes digest not None):
    cdef uint8_t personal[32]
    digest_personal(word_at(digest), personal)
    return bytes_of(personal, 32)

# ----- signatures ----------------------------------------------------------------------------


cdef bint read_signature(PyObject* signature, uint8_t* to) noexcept:
    cdef Py_ssize_t length = 0
    cdef const uint8_t* text = text_ascii(signature, &length)
    return (
        text != NULL and length == 132 and text[0] == c"0" and text[1] == c"x"
        and hex_read(text + 2, 65, to)
    )


def recover(bytes digest not None, signature):
    cdef uint8_t raw[65]
    cdef uint8_t address[20]
    cdef const uint8_t* word = word_at(digest)
    cdef int verdict = VERDICT_MALFORMED
    if read_signature(<PyObject*>signature, raw):
        verdict = signature_check(raw) or signature_recover(word, raw, address)
    return bytes_of(address, 20) if verdict == VERDICT_VALID else Verdict(verdict)


cdef int prepare(object value, bytes rules, const uint8_t* digest, Case* it) except -1:
    # Copy the input of a verification; set the verdict if it is already decided. With a digest,
    # only signer, owner and signature type are read.
    cdef Plan plan = plan_of(type_of(<PyObject*>value))
    cdef uint8_t kind[32]
    it.verdict = VERDICT_INVALID_FIELD
    it.is_digest = digest != NULL
    if plan is None:
        return prepare_slowly(value, rules, digest, it)
    if digest == NULL:
        if not write_words(plan, value, it.words):
            return prepare_slowly(value, rules, digest, it)
        it.num_bytes = 32 * (plan.count + 1)
        memcpy(it.signer, it.words + 32 * (plan.signer + 1) + 12, 20)
        memcpy(it.owner, it.words + 32 * (plan.owner + 1) + 12, 20)
        if plan.kind >= 0:
            memcpy(kind, it.words + 32 * (plan.kind + 1), 32)
    else:
        if not write_field(plan, plan.signer, value, it.words):
            return prepare_slowly(value, rules, digest, it)
        memcpy(it.signer, it.words + 12, 20)
        if not write_field(plan, plan.owner, value, it.words):
            return prepare_slowly(value, rules, digest, it)
        memcpy(it.owner, it.words + 12, 20)
        if plan.kind >= 0 and not write_field(plan, plan.kind, value, kind):
            return prepare_slowly(value, rules, digest, it)
        memcpy(it.words, digest, 32)
    it.rule = RULE_EIP712
    if plan.kind >= 0:
        it.rule = rules[kind[31]] if kind[31] < PyBytes_GET_SIZE(rules) else 0
    return prepare_signature(value, it)


cdef int prepare_slowly(object value, bytes rules, const uint8_t* digest, Case* it) except -1:
    # With the functions of the twin.
    cdef bytes hashed, signer, owner
    cdef object rule
    try:
        if digest == NULL:
            hashed = _secp_py.hash_struct(value)
            memcpy(it.words, PyBytes_AS_STRING(hashed), 32)
        else:
            memcpy(it.words, digest, 32)
        signer = _secp_py.address_bytes(value.signer_address)
        owner = _secp_py.address_bytes(value.owner_address)
        rule = _secp_py.rule_of(value, rules)
    except (InvalidFieldError, TypeError, ValueError):
        return 0
    it.num_bytes = 0
    memcpy(it.signer, PyBytes_AS_STRING(signer), 20)
    memcpy(it.owner, PyBytes_AS_STRING(owner), 20)
    it.rule = rule
    return prepare_signature(value, it)


cdef int prepare_signature(object value, Case* it) except -1:
    cdef object signature
    if not it.rule:
        it.verdict = VERDICT_UNSUPPORTED_TYPE
    elif it.rule & RULE_CONTRACT_ONLY:
        it.verdict = VERDICT_CONTRACT_WALLET
    else:
        signature = value.signature
        it.verdict = VERDICT_MALFORMED
        if read_signature(<PyObject*>signature, it.signature):
            it.verdict = VERDICT_VALID
    return 0


def verdict_of(value, bytes separator not None, bytes rules not None, bytes digest=None):
    # Keeps the GIL: under contention, releasing it takes longer than a recovery.
    cdef uint8_t words[WORDS_BYTES]
    cdef Case it
    cdef const uint8_t* known = NULL
    if digest is not None:
        known = word_at(digest)
    it.words = words
    prepare(value, rules, known, &it)
    cases_verify(&it, 1, word_at(separator))
    return it.verdict


def verdicts_of(values, bytes separator not None, bytes rules not None, digests=None):
    cdef list all_values = list(values)
    cdef list all_digests = None if digests is None else list(digests)
    cdef Py_ssize_t count = len(all_values), done = 0, here, place
    cdef const uint8_t* domain = word_at(separator)
    cdef const uint8_t* digest = NULL
    cdef Py_ssize_t room = min(count, CHUNK)
    cdef Case* cases = <Case*>calloc(room or 1, sizeof(Case))
    cdef uint8_t* words = <uint8_t*>malloc((room or 1) * WORDS_BYTES)
    cdef bytearray verdicts = bytearray(count)
    try:
        if cases == NULL or words == NULL:
            raise MemoryError
        if all_digests is not None and len(all_digests) != count:
            raise ValueError("digests must be as many as values")
        while done < count:
            here = min(CHUNK, count - done)
            for place in range(here):
                cases[place].words = words + place * WORDS_BYTES
                if all_digests is not None:
                    digest = word_at(all_digests[done + place])
                prepare(all_values[done + place], rules, digest, &cases[place])
            with nogil:
                cases_verify(cases, here, domain)
            for place in range(here):
                verdicts[done + place] = cases[place].verdict
            done += here
    finally:
        free(cases)
        free(words)
    return bytes(verdicts)

# ----- reading -------------------------------------------------------------------------------


cdef object owned(PyObject* new):
    # Convert an owned reference to an object; raises if it is NULL.
    if new == NULL:
        raise MemoryError
    cdef object value = <object>new
    decref(new)
    return value


cdef PyObject* read_value(const Form* form, PyObject* value) except NULL:
    # A new reference. Unusual values are passed to the reader of the field, which may raise.
    cdef Py_ssize_t length = 0
    cdef const uint8_t* text
    cdef uint8_t word[32]
    cdef PyObject* read = NULL
    cdef object by_reader
    if form.read == READ_INTEGER or form.read == READ_SALT:
        if is_integer(value):
            if long_write(value, word):
                incref(value)
                return value
        elif form.read == READ_INTEGER:
            text = text_ascii(value, &length)
            if text != NULL:
                read = long_of_digits(text, length)
        else:
            read = read_salt(value)
    elif form.read == READ_ADDRESS:
        read = read_address(value)
    elif form.read == READ_SIDE and is_integer(value) and long_write(value, word):
        if small_word(word) and word[31] < 2:
            read = <PyObject*>SIDES[word[31]]
            incref(read)
    elif form.read == READ_UINT8 and is_integer(value) and long_write(value, word):
        if small_word(word):
            incref(value)
            return value
    if read != NULL:
        return read
    by_reader = (<object>form.reader)(<object>form.name, <object>value)
    Py_INCREF(by_reader)
    return <PyObject*>by_reader


cdef PyObject* read_salt(PyObject* value) except? NULL:
    # NULL if the reader must decide between number and text, or raise.
    cdef Py_ssize_t length = 0
    cdef const uint8_t* text = text_ascii(value, &length)
    cdef PyObject* number = NULL
    if text == NULL or length == SAFE_DIGITS or length > 77:
        return NULL
    if length > SAFE_DIGITS and text[0] != c"0":
        number = long_of_digits(text, length)
    if number == NULL:
        incref(value)
        return value
    return number


cdef PyObject* read_address(PyObject* value) except? NULL:
    # NULL if it is malformed or has a wrong checksum.
    cdef Py_ssize_t length = 0, place
    cdef const uint8_t* text = text_ascii(value, &length)
    cdef uint8_t raw[20]
    cdef bint lower = False, upper = False
    cdef PyObject* right
    if text == NULL or length != 42 or text[0] != c"0" or text[1] != c"x":
        return NULL
    if not hex_read(text + 2, 20, raw):
        return NULL
    for place in range(2, 42):
        lower |= text[place] >= c"a"
        upper |= c"A" <= text[place] <= c"F"
    if not (lower or upper):
        incref(value)
        return value
    right = text_of_address(raw)
    if right == NULL:
        raise MemoryError
    if lower and upper and not same_text(right, value):
        decref(right)
        return NULL
    return right


cdef inline bint same_text(PyObject* one, PyObject* other) noexcept:
    cdef Py_ssize_t length = 0, others = 0
    cdef const uint8_t* text = text_ascii(one, &length)
    cdef const uint8_t* another = text_ascii(other, &others)
    return (
        text != NULL and another != NULL and length == others and memcmp(text, another, length) == 0
    )


def read(cls, data):
    cdef Plan plan = plan_of(<PyObject*>cls)
    cdef PyObject* values[FIELDS_MAX + 1]
    cdef int count = 0
    if plan is None or not is_dict(<PyObject*>data):
        return _secp_py.read(cls, data)
    try:
        if read_all(plan, <PyObject*>data, values, &count):
            made = called(<PyObject*>cls, values, 0, <PyObject*>plan.names)
            if made != NULL:
                return owned(made)
            forget()
        return _secp_py.read(cls, data)
    finally:
        for place in range(count):
            decref(values[place])


cdef bint read_all(Plan plan, PyObject* data, PyObject** values, int* count) except -1:
    # Fills values with count new references. False if the twin must raise the error.
    cdef const Form* form
    cdef PyObject* given
    cdef PyObject* address = NULL       # the last address, as received and as read: the signer is
    cdef PyObject* address_read = NULL  # usually the maker, and the checksum costs a hash
    while count[0] < plan.count:
        form = &plan.forms[count[0]]
        given = dict_get(data, form.name)
        if given == NULL or given == NONE:
            given = values[form.same_as] if 0 <= form.same_as < count[0] else form.default
            if given == NULL:
                return False
            incref(given)
            values[count[0]] = given
        elif form.read == READ_ADDRESS and address != NULL and same_text(given, address):
            incref(address_read)
            values[count[0]] = address_read
        else:
            values[count[0]] = read_value(form, given)
            if form.read == READ_ADDRESS:
                address, address_read = given, values[count[0]]
        count[0] += 1
    given = dict_get(data, <PyObject*>SIGNATURE)
    if given == NULL or given == NONE:
        given = <PyObject*>EMPTY
    elif not is_exact_text(given):
        return False
    incref(given)
    values[count[0]] = given
    count[0] += 1
    return True
