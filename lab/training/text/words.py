"""Word lists of the English grammar, one slot per name.

A list is one string, its entries separated by white space, or by `|` where entries have several
words. To grow the vocabulary add to a list; to add a language write a sibling module with the same
two names, `WORDS` and `PHRASES`. Words that sound alike are kept apart by context or left out;
every number is written as a word, so that text and speech have one reading each.
"""

WORDS: dict[str, str] = {
    "name": "Anna Peter Maria David Laura Thomas Emma Daniel Julia Robert Alice Simon Nina Martin "
    "Sophie Oliver Clara Henry Rosa Victor Linda George Helen Walter Susan Frank Carol Edward "
    "Diana Oscar Emily Jacob",
    "family": "mother father sister brother aunt uncle cousin grandmother grandfather daughter "
    "husband wife",
    "person": "doctor teacher neighbor friend boss driver nurse farmer lawyer baker singer "
    "student manager painter captain waiter dentist pilot",
    "room": "kitchen bedroom bathroom hallway garage office garden basement attic nursery cellar",
    "device": "lamp heater fan radio television oven dishwasher printer camera computer "
    "speaker alarm fridge vacuum projector",
    "opener": "door window gate curtain blinds garage shutters",
    "color": "red green yellow orange purple white black brown pink gray golden silver",
    "food": "bread butter cheese rice soup salad pasta chicken fish potatoes tomatoes carrots "
    "onions eggs honey sugar salt pepper chocolate cake cookies pizza sandwiches beans "
    "mushrooms sausages noodles pancakes yogurt garlic spinach",
    "fruit": "apples bananas oranges lemons grapes cherries strawberries peaches melons plums",
    "drink": "water coffee tea milk juice beer wine lemonade cocoa soda",
    "meal": "breakfast lunch dinner supper",
    "city": "London Paris Berlin Madrid Rome Vienna Boston Chicago Tokyo Dublin Moscow Sydney "
    "Toronto Lisbon Athens Denver",
    "country": "France Germany Spain Italy Canada Japan India Brazil Norway Egypt Mexico Poland",
    "language": "English German Spanish French Italian Japanese",
    "place": "station airport library museum market school hospital church hotel restaurant "
    "bakery pharmacy theater park beach castle harbor stadium office supermarket cinema village "
    "bridge factory",
    "animal": "dog cat horse bird rabbit cow sheep duck mouse lion tiger elephant monkey snake "
    "frog fox wolf goat chicken turtle spider dolphin",
    "thing": "book letter key phone bag box cup bottle hat coat shirt chair table picture clock "
    "knife spoon plate umbrella ticket newspaper pencil blanket basket candle mirror ladder "
    "hammer bicycle guitar suitcase pillow jacket wallet towel ring",
    "vehicle": "car bus train truck boat plane taxi bicycle ship tram",
    "weekday": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
    "month": "January February March April May June July August September October November "
    "December",
    "season": "spring summer autumn winter",
    "weather": "sunny rainy cloudy windy foggy stormy snowy warm cold hot dry humid icy",
    "sky": "rain snow fog thunder sunshine ice clouds lightning",
    "size": "big small tall short long little huge tiny heavy light wide narrow",
    "quality": "old new beautiful clean dirty broken empty full strange pretty expensive cheap "
    "soft hard round simple famous modern ancient comfortable",
    "mood": "happy sad tired angry hungry thirsty busy nervous excited lonely proud worried "
    "surprised bored calm afraid curious grateful",
    "job_place": "bank company shop hospital newspaper farm studio university",
    "subject": "history music math biology chemistry art geography science poetry",
    "sport": "football tennis basketball golf chess hockey cards volleyball",
    "instrument": "piano guitar violin drums flute trumpet",
    "hobby": "dancing singing cooking reading swimming running painting fishing hiking sailing "
    "skiing gardening knitting writing travelling sleeping",
    "body": "head arm leg foot hand back knee shoulder stomach tooth finger neck ear nose",
    "nature": "river mountain forest lake sea island valley field desert hill cave waterfall "
    "tree flower moon sun star",
    "material": "wood paper glass stone metal plastic leather cotton",
    "past_go": "walked drove ran hurried travelled returned moved went",
    "past_do": "found lost bought sold cleaned painted repaired dropped carried forgot hid "
    "borrowed opened washed needed wanted",
    "infinitive": "find buy sell clean paint repair carry forget hide borrow open wash bring take "
    "keep move",
    "act": "sing dance cook sleep swim read write work play wait travel study rest smile "
    "practice exercise",
    "act_past": "sang danced cooked slept swam worked played waited smiled laughed cried "
    "shouted whispered listened stayed left",
    "say": "said asked answered whispered shouted replied explained thought",
    "frequency": "always never often sometimes usually rarely",
    "manner": "slowly quickly quietly loudly carefully gently suddenly together alone early late "
    "again outside inside upstairs downstairs",
    "ordinal": "first second third fourth fifth sixth seventh eighth ninth tenth twelfth twentieth",
    "digit": "one two three four five six seven eight nine",
    "teen": "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen",
    "tens": "twenty thirty forty fifty sixty seventy eighty ninety",
    "hour": "one two three four five six seven eight nine ten eleven twelve",
    "unit_time": "seconds minutes hours days weeks months years",
    "unit": "dollars euros miles kilometers meters pounds grams degrees pages people percent",
    "daypart": "morning afternoon evening",
    "adverb": "really very quite rather extremely almost",
    "media": "song movie story game show concert podcast playlist",
    "genre": "jazz rock classical pop country folk",
    "company_thing": "meeting report contract project budget email message invoice presentation "
    "appointment interview schedule password document",
    "clothes": "shoes gloves socks trousers boots glasses scarf sweater dress",
    "problem": "problem mistake question idea plan answer secret dream promise choice reason",
    "plural": "books letters boxes cups bottles chairs tables pictures clocks plates tickets "
    "pencils candles birds horses dogs cats trees flowers houses stars chairs friends students "
    "doctors questions meetings songs stories hotels bridges cars buses",
    "school_thing": "homework lesson exam course lecture test essay",
}

PHRASES: dict[str, str] = {
    "greeting": "Hello|Good morning|Good evening|Good afternoon|Hi there|Welcome back|Hey",
    "farewell": "Goodbye|Good night|See you tomorrow|See you later|Take care|Until next week",
    "thanks": "Thank you very much|Thanks a lot|Thank you for your help|Many thanks|Thank you",
    "reaction": "That sounds great|I do not know|I have no idea|Of course|Not at all|No problem|"
    "I am sorry|Excuse me|Never mind|Well done|What a surprise|You are right|That is not fair|"
    "I agree with you|I think so|Maybe tomorrow|Let me see|Are you sure|Good luck|"
    "Congratulations|Happy birthday|Wonderful|Be careful|Hurry up|Please sit down|"
    "Follow me|Just a moment|Yes, please|No, thank you|Absolutely|Exactly|Sounds good",
    "pronoun": "he|she|I|we|they|you",
    "owner": "my|your|his|her|our|their",
    "question": "How are you today|How was your weekend|What is new with you|How is your family|"
    "Where are you from|What do you do for a living|Do you come here often|How old are you|"
    "What is your favorite color|Can you help me with this|Could you speak more slowly|"
    "Could you repeat that, please|What does this word mean|Did you sleep well|"
    "What happened to you|Is everything all right|Who told you that|Which one is better",
    "remark": "It is nice to meet you|Long time no see|I do not understand|"
    "I am looking forward to it|It was a pleasure|Have a nice day|Enjoy your meal|"
    "Make yourself at home|Nothing has changed since then|Both of them came along",
    "moment": "today|tomorrow|yesterday|tonight|right now|next week|last year|this morning|"
    "every day|on the weekend|in the evening|after school|before midnight|at noon|last night|"
    "next month|in a few minutes|as soon as possible|during the holidays",
    "preposition": "under the|behind the|near the|in front of the|next to the|between the house "
    "and the|above the|across from the|inside the|beside the",
}


def slots() -> dict[str, list[str]]:
    """Returns every slot with its entries, in the order written above."""
    lists = {name: text.split() for name, text in WORDS.items()}
    return lists | {name: text.split("|") for name, text in PHRASES.items()}
