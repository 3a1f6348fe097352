# How the Structs that the desk reads lie in memory: the fields of a class in alphabetical order,
# after those of its base. Desk.layout_holds says whether that is so.

cdef extern from *:
    """
    typedef struct {
        PyObject_HEAD
        PyObject *collateral, *expiration_s, *fee_rate_bps, *id, *maker, *nonce, *post_only;
        PyObject *price, *self_trade, *side, *size, *smart_wallet, *time_in_force, *token;
    } ClobOrder;
    typedef struct {
        PyObject_HEAD
        PyObject *now_ms;
        PyObject *client_id, *deadline_ms, *market, *order, *order_hash;
    } ClobSubmit;
    typedef struct {
        PyObject_HEAD
        PyObject *now_ms;
        PyObject *maker, *market, *order_id;
    } ClobCancel;
    typedef struct {
        PyObject_HEAD
        PyObject *buyer, *buyer_fee, *incoming_order_id, *incoming_remaining, *incoming_side;
        PyObject *market, *price, *resting_order_id, *resting_remaining, *seller, *seller_fee;
        PyObject *seq, *size, *token;
    } ClobTrade;
    typedef struct {
        PyObject_HEAD
        PyObject *accepted_ms, *client_id, *collateral, *expiration_s, *fee_rate_bps;
        PyObject *filled_collateral, *given, *id, *maker, *nonce, *number, *order_hash;
        PyObject *post_only, *price, *remaining, *self_trade, *side, *size, *smart_wallet;
        PyObject *time_in_force;
    } ClobOrderState;
    """
    ctypedef class clob.order.Order [object ClobOrder, check_size error]:
        cdef object collateral
        cdef object expiration_s
        cdef object fee_rate_bps
        cdef object id
        cdef object maker
        cdef object nonce
        cdef object price
        cdef object self_trade
        cdef object side
        cdef object size
        cdef object smart_wallet
        cdef object time_in_force
        cdef object token

    ctypedef class clob.commands.Submit [object ClobSubmit, check_size error]:
        cdef object now_ms
        cdef object client_id
        cdef object deadline_ms
        cdef object market
        cdef object order
        cdef object order_hash

    ctypedef class clob.commands.Cancel [object ClobCancel, check_size error]:
        cdef object now_ms
        cdef object maker
        cdef object market
        cdef object order_id

    ctypedef class clob.events.Trade [object ClobTrade, check_size error]:
        cdef object buyer_fee
        cdef object incoming_side
        cdef object price
        cdef object resting_order_id
        cdef object resting_remaining
        cdef object seller_fee
        cdef object seq
        cdef object size
        cdef object token

    ctypedef class clob._states.OrderState [object ClobOrderState, check_size error]:
        cdef object accepted_ms
        cdef object client_id
        cdef object filled_collateral
        cdef object given
        cdef object maker
        cdef object number
        cdef object order_hash
        cdef object remaining
